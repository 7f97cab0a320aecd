"""`bench.py merge`: join runs that are parts of one experiment into one run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.evaluation.problem_groups import problem_set_of
from bench.planning.catalog import Catalog
from bench.planning.config import configuration_hash, differences
from bench.report.command import open_record
from bench.report.verify import claims_of, completeness_faults
from bench.storage.database import ResultsDatabase, translate_errors
from bench.storage.run_folder import DATABASE_NAME
from bench.storage.run_json import weights_of
from bench.storage.union import Union
from common.errors import InputError
from common.files import atomic_path, make_folder
from common.text import join_names

JOINED = ("methods", "datasets", "conditions", "points", "timing_points", "more")
"""Lists of a configuration in which parts may differ: the whole run has the entries of all."""
ADDED = {"repeats": 1, "batch": 1, "more": [], "kind": None, "tuned": {}}
"""Values of the fields that configurations of earlier versions lack."""


@dataclass(frozen=True)
class Part:
    """A run that is merged.

    Attributes:
        name: name of its folder, for messages.
        database: its results database, open for reading.
        facts: content of its `run.json`.
        code: hashes of the source files by method, and their `form`.
    """

    name: str
    database: ResultsDatabase
    facts: dict[str, Any]
    code: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """Configuration, with the fields that earlier versions lack."""
        return ADDED | self.facts["config"]


def merge(folders: Sequence[Path], out: Path, catalog: Catalog) -> list[str]:
    """Join runs into a new one in the folder `out`, without CSVs; return what is missing in it.

    Raises:
        InputError: a folder holds no run, `out` is not new, or runs contradict each other: other configurations, problem
            sets, code or weights, or two outcomes of one call.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out}: exists already; give a new name")
    with contextlib.ExitStack() as stack:
        parts = [_read_part(folder, stack) for folder in folders]
        facts = joined_facts(parts)
        make_folder(out.parent)
        with atomic_path(out) as temporary, translate_errors(temporary / DATABASE_NAME):
            _write(temporary, parts, facts)
            return _finish(temporary, parts, catalog)


def _read_part(folder: Path, stack: contextlib.ExitStack) -> Part:
    database = open_record(folder)
    stack.callback(database.close)
    return Part(folder.resolve().name, database, database.get("run"), database.get("code") or {})


def joined_facts(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the facts of the whole run, as `bench.execution.run.facts_of_run` does.

    Raises:
        InputError: see `merge`.
    """
    config = dict(parts[0].config)
    for part in parts[1:]:
        config = _joined_config(config, parts[0].name, part)
    facts = {name: fact for name, fact in parts[0].facts.items() if name != "shard"}
    facts |= {"command": " ; ".join(dict.fromkeys(part.facts["command"] for part in parts)), "config": config}
    facts["hash"] = configuration_hash(config)
    for name in ("kinds", "data", "methods", "machines"):
        facts[name] = _joined(parts, name, None if name in ("methods", "machines") else lambda entry: entry)
    facts["problem_sets"] = _problem_sets(parts)
    facts["setup"] = _joined(parts, "setup", weights_of)
    facts["unavailable"] = _unavailable(parts)
    facts["notes"] = list(dict.fromkeys(note for part in parts for note in part.facts["notes"]))
    facts["parts"] = [
        {"run": part.name, "command": part.facts["command"], "environment": part.facts["environment"]} for part in parts
    ]
    return facts


def _joined_config(whole: dict[str, Any], first: str, part: Part) -> dict[str, Any]:
    """Return the configuration of runs joined so far, with what a further one adds."""
    own = part.config
    same = {name: value for name, value in own.items() if name not in (*JOINED, "oracle", "tuned", "seed", "seeds")}
    if lines := differences({name: whole[name] for name in same}, same):
        fix = "one run has one value: leave out a run, or run it again"
        raise InputError(f"{first} and {part.name}: differ in {join_names(lines)}; {fix}")
    if other := [name for name in whole["tuned"].keys() & own["tuned"] if whole["tuned"][name] != own["tuned"][name]]:
        raise InputError(f"{first} and {part.name}: differ in the tuned settings of {join_names(other)}; run one again")
    lists = {name: [*whole[name], *(entry for entry in own[name] if entry not in whole[name])] for name in JOINED}
    seeds = list(dict.fromkeys([*seeds_of(whole), *seeds_of(own)]))
    lists |= {"seeds": seeds} if len(seeds) > 1 else {}
    return whole | lists | {"oracle": whole["oracle"] or own["oracle"], "tuned": whole["tuned"] | own["tuned"]}


def seeds_of(config: Mapping[str, Any]) -> list[int]:
    """Return the seeds of a configuration, the first one first."""
    return list(config.get("seeds", [config["seed"]]))


WHAT = {
    "problem_sets": "has other problems (another SHA-256)",
    "kinds": "is of another kind of data",
    "data": "is another copy of the data",
    "setup": "has other weights",
}
"""What differs if two runs have different facts of one name."""


def _joined(parts: Sequence[Part], fact: str, compared: Callable[[Any], Any] | None) -> dict[str, Any]:
    """Return the entries of a fact of all runs; `compared` gives what must be equal in entries of one name."""
    whole: dict[str, Any] = {}
    source: dict[str, str] = {}
    for part in parts:
        for name, entry in part.facts.get(fact, {}).items():
            if name in whole and compared and compared(whole[name]) != compared(entry):
                raise InputError(f"{source[name]} and {part.name}: {name} {WHAT[fact]}; leave one of them out")
            whole.setdefault(name, entry)
            source.setdefault(name, part.name)
    return whole


def _problem_sets(parts: Sequence[Part]) -> dict[str, str]:
    """Return the SHA-256 of each problem set, which runs of equal seeds must share; `_finish` computes those of several seeds."""
    sets: dict[str, str] = {}
    for seeds in dict.fromkeys(tuple(seeds_of(part.config)) for part in parts):
        same = [part for part in parts if tuple(seeds_of(part.config)) == seeds]
        sets = _joined(same, "problem_sets", lambda entry: entry) | sets
    return sets


def _unavailable(parts: Sequence[Part]) -> dict[str, str]:
    """Return the methods that were available to no run, with the reason."""
    reasons: dict[str, str] = {}
    for part in parts:
        reasons |= part.facts["unavailable"]
    run = {m for part in parts for m in part.database.methods_with_outcomes()}
    return {method: reason for method, reason in reasons.items() if method not in run}


def joined_code(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the hashes of the source files of all methods, of runs whose hashes have the latest form.

    Raises:
        InputError: two runs solved problems with different code of one method.
    """
    form = max(part.code.get("form", 0) for part in parts)
    methods: dict[str, Mapping[str, str]] = {}
    source: dict[str, str] = {}
    for part in (part for part in parts if part.code.get("form") == form):
        solved = part.database.methods_with_outcomes()
        for method, hashes in part.code.get("methods", {}).items():
            changed = sorted({file for file, _ in hashes.items() ^ methods.get(method, hashes).items()})
            if changed and method in solved and source[method]:
                where = f"{source[method]} and {part.name}: {method} has other code"
                raise InputError(f"{where} ({join_names(changed)}); run both with the same version, or leave one out")
            if method in solved or method not in methods:
                methods[method], source[method] = hashes, part.name if method in solved else source.get(method, "")
    return {"form": form, "methods": methods} if form else {}


def _write(folder: Path, parts: Sequence[Part], facts: dict[str, Any]) -> None:
    """Write the database of the whole run, not marked as finished."""
    code = joined_code(parts)
    target = ResultsDatabase(folder / DATABASE_NAME)
    try:
        union = Union(target, parts[0].config["seed"])
        for part in parts:
            union.add(part.name, part.database, part.config["seed"])
        for key, value in (("hash", facts["hash"]), ("code", code), ("run", facts)):
            target.put(key, value)
        timed = [part for part in parts if part.database.get("sentinel_ms")]
        if len(timed) == 1:  # of several, each shows the drift of one machine only
            target.put("sentinel_ms", timed[0].database.get("sentinel_ms"))
            target.put("warm_up_s", timed[0].database.get("warm_up_s"))
    finally:
        target.close()


def _finish(folder: Path, parts: Sequence[Part], catalog: Catalog) -> list[str]:
    """Mark a joined run as finished if nothing is missing; return what is."""
    claims = claims_of(folder, catalog)
    if len(claims.seeds) > 1:
        sets = {group: problem_set_of(claims.loaded, rows) for group, rows in claims.groups.items()}
        _put(folder, "run", claims.loaded.run | {"problem_sets": sets})
    missing = list(completeness_faults(claims))
    missing += [f"{part.name} was stopped before its end" for part in parts if not part.database.get("finished")]
    outcomes = claims.loaded.outcomes
    if claims.config["timing_rounds"]:
        timed = set(outcomes.loc[outcomes["phase"] == "timing", "method"].astype(str))
        known = claims.config["methods"]
        missing += [f"{m} was not timed" for m in known if m not in timed and m not in claims.loaded.run["unavailable"]]
    if not missing:
        _put(folder, "finished", time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    return missing


def _put(folder: Path, key: str, value: Any) -> None:
    with contextlib.closing(ResultsDatabase(folder / DATABASE_NAME)) as database:
        database.put(key, value)
