"""A run: draw problems, ask every method, time them alone; every outcome is in the record as soon as it is there."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import run_folder, solve, stop
from bench.child import Child, Limits, Setting
from bench.config import ORACLE, RECALL_THRESHOLD, RunConfig, differences
from bench.environment import environment
from bench.outcome import Outcome
from bench.place import Place
from bench.plan import Cell, Piece, make_cells, make_loads, make_pieces, repeats_and_batch, setting
from bench.pool import WorkerLost, solved, tell_workers
from bench.progress import Meter
from bench.store import Ledger, Record
from bench.timing import Stopwatch, drift_note
from common.errors import InputError
from datasets import registry as data_sets
from datasets.problems import problem_set_sha256
from methods import registry

DRAWN_AT_ONCE = 100
CHANGED = "changed since; give --fresh to ask again, or another --out to keep what there is"
LOSSES = 3
"""Workers that may die in a row without any outcome before a run gives up."""


def run(config: RunConfig, place: Place) -> Record:
    """Do what is left of a run and return its record.

    Raises:
        InputError: the folder holds the record of another configuration, or data or weights are broken.
    """
    cells = make_cells(config, place.data, place.plugins)
    record = open_record(config, place)
    notes = notes_on(config, cells, place.plugins)
    for note in notes:
        place.console.print(note, highlight=False, soft_wrap=True)
    hashes = draw_problems(record, cells, place)
    settings = {setting(config, m, c, place.plugins): m for c in cells if not c.skip for m in c.methods}
    ready = preflight(list(settings), config.call_limits, place.console)
    _refuse_other_weights(record, ready, place)
    record.put("run", describe(config, place, hashes, ready) | {"notes": _on_times(config, place) + notes})
    usable = {s for s, reply in ready.items() if reply["status"] == "ok"}
    record_unasked(record, config, cells, ready, place.plugins)
    live = [c for c in cells if not c.skip]
    record_oracle(record, config, live)
    accuracy(record, config, live, usable, place)
    Stopwatch(record, config, usable, place).run()
    record.put("finished", time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    return record


def open_record(config: RunConfig, place: Place) -> Record:
    """The record of this configuration in the run's folder, new or to be continued."""
    if place.fresh and (kept := run_folder.clear(place.folder)):
        place.console.print(
            f"{place.folder}: kept what no run writes: {', '.join(kept)}", highlight=False, soft_wrap=True
        )
    record = Record(place.folder / "record.sqlite")
    known = record.get("hash")
    if known not in (None, config.hash):
        raise InputError(
            f"{place.folder}: holds a run of another configuration{_against(record, config)}; "
            "give --fresh to replace it, or another --out"
        )
    record.put("hash", config.hash)
    _refuse_other_code(record, config, place)
    if known:
        done = len(record.done("accuracy")) + len(record.done("timing"))
        place.console.print(f"continuing: {done} outcomes are recorded already", highlight=False)
    return record


def _refuse_other_code(record: Record, config: RunConfig, place: Place) -> None:
    """Outcomes of a method as it was must not stand beside those of the method as it is."""
    code = {m: registry.code_of(m, place.plugins) for m in config.every_method}
    known = record.get("code") or {}
    asked = record.answered() & known.keys() & code.keys()
    changed = {file for m in asked for file, _ in code[m].items() ^ known[m].items()}
    if changed:
        raise InputError(f"{place.folder}: {', '.join(sorted(changed))} {CHANGED}")
    record.put("code", code)


def _refuse_other_weights(record: Record, ready: dict[Setting, dict[str, Any]], place: Place) -> None:
    """The same of the files that methods load, whose `sha256` they note when they are set up."""
    known, answered = (record.get("run") or {}).get("setup", {}), record.answered()
    mine = _setups({s: reply for s, reply in ready.items() if s.method in answered})
    changed = [name for name in mine if name in known and _weights(mine[name]) != _weights(known[name])]
    if changed:
        raise InputError(f"{place.folder}: the weights of {', '.join(changed)} {CHANGED}")


def _weights(notes: dict[str, Any]) -> dict[str, Any]:
    """Of what a method, or the parts of a chain, noted: the digests of files."""
    return {name: fact for name, fact in notes.items() if name.split()[-1] == "sha256"}


def _setups(ready: dict[Setting, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What methods noted when they were set up."""
    return {f"{s.method} on {s.domain}": r["notes"] for s, r in ready.items() if r.get("notes")}


def _against(record: Record, config: RunConfig) -> str:
    """By what the configuration differs from the recorded one; nothing if the run was stopped before it was recorded."""
    there, here = record.get("run"), json.loads(json.dumps(dataclasses.asdict(config)))
    told = differences(there["config"], here) if there else []
    return f" (there → here: {'; '.join(told)})" if told else ""


def notes_on(config: RunConfig, cells: list[Cell], plugins: Path | None) -> list[str]:
    """What is not as asked: broken plug-ins, files left out, cells that can't be had, fewer points or problems."""
    notes = list((data_sets.faults(plugins) | registry.faults(plugins)).values())
    notes += dict.fromkeys(remark for c in cells for remark in c.remarks)
    notes += [f"{c.name} is skipped: {c.skip}" for c in cells if c.skip]
    for cell in cells:
        if cell.points != cell.asked and not cell.skip:
            why = "its points are fixed and split into disjoint halves"
            notes.append(f"{cell.dataset}/{cell.condition} has N = {cell.points} instead of {cell.asked}: {why}")
    fewer = [f"{m} {config.limit(m)}" for m in config.every_method if config.limit(m) < config.problems]
    if fewer:
        notes.append(f"slow methods get fewer than {config.problems} problems of each condition: {', '.join(fewer)}")
    return notes


def draw_problems(record: Record, cells: list[Cell], place: Place) -> dict[str, str]:
    """Record the truth of every problem that is not yet there; returns the SHA-256 of each cell's problem set."""
    known = record.known_problems()
    live = [c for c in cells if not c.skip]
    hashes: dict[str, str] = {}
    with Meter(place.console, "problems", sum(k.id not in known for c in live for k in c.keys)) as meter:
        for cell in live:
            new = [k for k in cell.keys if k.id not in known]
            for start in range(0, len(new), DRAWN_AT_ONCE):
                some = [solve.draw(k, place.data, place.plugins) for k in new[start : start + DRAWN_AT_ONCE]]
                record.add_problems(some)
                known |= {p.key.id: p.sha256() for p in some}
                meter.step(len(some), cell.name)
            hashes[cell.name] = problem_set_sha256(known[k.id] for k in cell.keys)
    return hashes


def preflight(settings: list[Setting], limits: Limits, console: Console) -> dict[Setting, dict[str, Any]]:
    """Set every method up once, away from this process, and say what it loaded or why it can't be used.

    Raises:
        InputError: a method was given bad input, such as weights of another architecture.
    """
    ready: dict[Setting, dict[str, Any]] = {}
    said: set[tuple[str, str]] = set()
    child = Child(settings[0], limits) if settings else None
    with Meter(console, "setting up", len(settings)) as meter:
        for one in settings:
            assert child is not None
            ready[one] = child.set_up(one)
            _say_setup(one, ready[one], said, console)
            meter.step(1, one.method)
    if child is not None:
        child.close()
    return ready


def _say_setup(one: Setting, reply: dict[str, Any], said: set[tuple[str, str]], console: Console) -> None:
    if reply["status"] == "input":
        raise InputError(reply["message"])
    facts = ", ".join(f"{k} {v}" for k, v in reply.get("notes", {}).items())
    text = f"{one.method}: {facts}" if facts else ""
    if reply["status"] != "ok":
        text = f"{one.method} can't be used on {one.domain}: {reply['message']}"
    if text and (one.method, text) not in said:
        said.add((one.method, text))
        console.print(text, highlight=False, soft_wrap=True)


def describe(
    config: RunConfig, place: Place, hashes: dict[str, str], ready: dict[Setting, dict[str, Any]]
) -> dict[str, Any]:
    """What `run.json` says of the run."""
    offers = {m: registry.build(m, place.plugins) for m in config.every_method}
    first = registry.available(place.plugins)
    return {
        "command": place.command,
        "config": dataclasses.asdict(config) | {"threshold": RECALL_THRESHOLD, "angle_bins": list(config.angles)},
        "hash": config.hash,
        "problem_sets": hashes,
        "data": contents(config, place),
        "methods": {
            name: {
                "kind": registry.kind_of(method),
                "random": registry.is_random(method),
                "variant": registry.parameters_of(method),
                "doc": " + ".join(first[p.split("[")[0]].summary for p in name.split("+") if p.split("[")[0] in first),
            }
            for name, method in offers.items()
        },
        "setup": _setups(ready),
        "unavailable": {s.method: r["message"] for s, r in ready.items() if r["status"] != "ok"},
        "environment": environment() | {"threads": config.threads, "device": config.device, "jobs": place.jobs},
    }


def contents(config: RunConfig, place: Place) -> dict[str, Any]:
    """What the test split of each data set holds, of those that tell."""
    names = dict.fromkeys([*config.datasets, *(name for more in config.more for name in more.datasets)])
    found = {name: data_sets.open_data(name, place.data, place.plugins) for name in names}
    return {name: held for name, one in found.items() if (held := one.contents("test"))}


def record_unasked(
    record: Record, config: RunConfig, cells: list[Cell], ready: dict[Setting, dict[str, Any]], plugins: Path | None
) -> None:
    """A problem that is not asked is a row with its reason, too.

    It is `skipped` where the data or a package is missing; a method whose own setup breaks has failed every problem.
    """
    for method in config.every_method:
        kind = registry.kind_of(registry.build(method, plugins))
        for cell in (c for c in cells if method in c.methods):
            reply = ready.get(setting(config, method, cell, plugins), {"status": "unavailable"})
            if not cell.skip and reply["status"] == "ok":
                continue
            status = "skipped" if cell.skip or reply["status"] == "unavailable" else reply["status"]
            reason = cell.skip or reply["message"]
            keys = cell.keys[: config.limit(method)]
            record.add_outcomes(
                (Outcome(method, k.id, status, seed=k.seed, message=reason) for k in keys), kind, cell.columns
            )


def record_oracle(record: Record, config: RunConfig, cells: list[Cell]) -> None:
    """The truth as an answer: a control of the scoring, which must find no error in it."""
    truth = record.truths() if config.oracle else {}
    for cell in cells:
        rows = [Outcome(ORACLE, k.id, "ok", seed=config.seed, pose=truth[k.id]) for k in cell.keys if k.id in truth]
        record.add_outcomes(rows, "control", cell.columns)


def accuracy(record: Record, config: RunConfig, cells: list[Cell], usable: set[Setting], place: Place) -> None:
    """Every method on every problem, in parallel. Outcomes count as done once they are in the record."""

    def left() -> list[Piece]:
        pieces = make_pieces(config, cells, record.done("accuracy"), place.data, place.plugins)
        return [p for p in pieces if p.setting in usable]

    kinds = {m: registry.kind_of(registry.build(m, place.plugins)) for m in config.every_method}
    pieces, fruitless = left(), 0
    count = sum(len(p.keys) for p in pieces)
    with stop.on_interrupt(tell_workers), Meter(place.console, "registering", count) as meter:
        while pieces and not stop.asked():
            before = meter.count
            try:
                with Ledger(record, meter.step) as ledger:
                    for piece, outcomes in solved(make_loads(pieces, place.jobs), place):
                        method, cell = piece.setting.method, piece.cell
                        ledger.add(outcomes, kinds[method], cell.columns, f"{method} on {cell.name}")
            except WorkerLost as loss:
                if stop.asked():  # it was interrupted before it could listen
                    break
                fruitless = fruitless + 1 if meter.count == before else 0
                if fruitless >= LOSSES:
                    raise InputError(f"worker processes keep dying ({loss}); try --jobs 1 or fewer --points") from loss
                place.console.print(f"a worker process died ({loss}); its problems are solved again", highlight=False)
            pieces = left()


def _on_times(config: RunConfig, place: Place) -> list[str]:
    """What to know of the times of the accuracy problems."""
    notes = []
    if place.jobs > 1 or place.scheduler:
        alone = "the timing table has those taken alone" if config.timing_rounds else "nothing was timed alone"
        notes = [f"times beside accuracy were taken while several processes worked; {alone}"]
    if batched := [m for m in config.every_method if repeats_and_batch(config, m, place.plugins)[1] > 1]:
        share = f"times beside accuracy are a batch's over its pairs (--batch {config.batch}; column batch): "
        notes.append(share + ", ".join(batched))
    return notes


def _unfinished(record: Record) -> list[str]:
    """A warning on a run that was stopped: what is missing looks like what was never asked."""
    if record.get("finished"):
        return []
    return ["this run was stopped before its end, so methods and problems are missing here; its command continues it"]


def run_json(record: Record) -> dict[str, Any]:
    """What `run.json` holds of a record's run."""
    said: dict[str, Any] = record.get("run")
    sentinel = record.get("sentinel_ms")
    said |= {"sentinel_ms": sentinel, "notes": said["notes"] + drift_note(sentinel) + _unfinished(record)}
    return said
