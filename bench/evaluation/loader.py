"""Read a run's results database column by column: a million outcomes take seconds and a few hundred megabytes."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.metrics import Scenes
from bench.storage import evaluation_points
from bench.storage.database import open_to_read, translate_errors
from bench.storage.seeds import split_seed
from common.errors import InputError
from common.garbage import uncollected
from common.moments import Moments
from common.parallel import parallel_map

if TYPE_CHECKING:
    import pandas as pd

POSE_COLUMNS = [f"t{row}{column}" for row in range(4) for column in range(4)]
GROUP_COLUMNS = ["method", "dataset", "condition", "points"]
KEY_COLUMNS = [*GROUP_COLUMNS, "problem", "repeat", "seed"]

_TAGS = ["problem", "dataset", "condition", "points", "object", "category", "angle_deg", "translation", "overlap"]
_TAGS += ["symmetry", "digest"]
_SHARED = {"dataset", "condition", "category", "symmetry"}
"""Columns of problems whose texts are kept once."""
_TEXTS = ["phase", "method", "problem", "kind", "dataset", "condition", "status", "device", "machine", "message"]
_COUNTS = ["repeat", "points", "seed", "threads", "batch"]
_MEASURED = ["time_ms", "peak_mb", "gpu_memory_mb"]
_CHUNK = 1_000  # rows read at once: larger chunks leave the processor's cache and are slower


@dataclass(frozen=True)
class RunData:
    """Content of a run's results database.

    Attributes:
        problems: one row per problem, sorted by id: problem, dataset, condition, points, object, category, angle_deg,
            translation, overlap, symmetry, digest, seed, and the run's sampler.
        scenes: ground truth, source pose and evaluation points of the same problems, in the same order.
        information: (6, 6) matrix of `gt.info` by row of the problem, for problems that have one.
        outcomes: one row per outcome, sorted by key and phase: `KEY_COLUMNS`, phase, kind, status, the pose in the 16 columns
            `POSE_COLUMNS` (row-major, NaN without a pose), time_ms, peak_mb, gpu_memory_mb, device, threads, batch,
            machine, message, notes (JSON). All text columns except notes are categories in alphabetical order.
        stages: one row per stage of a timed outcome, without batches: method, points, machine, device, stage, time_ms.
        run: content of `run.json`.
    """

    problems: pd.DataFrame
    scenes: Scenes
    information: dict[int, NDArray[np.float64]]
    outcomes: pd.DataFrame
    stages: pd.DataFrame
    run: dict[str, Any]


def load_run(record: Path, run: dict[str, Any]) -> RunData:
    """Read a `record.sqlite`; `run` is the content of its `run.json`.

    Raises:
        InputError: the file is not the results database of a run.
    """
    try:
        with translate_errors(record), uncollected():
            large = record.stat().st_size > LARGE
            parts = _read_parts(record.absolute(), large)
            clouds = parallel_map(
                _problems, [record.absolute()], large
            )  # after the outcomes: it has a problem for each
            outcomes, stages = _outcomes(parts), _stages(record)
            problems, scenes, information = next(clouds)
    except InputError:
        raise
    except (ValueError, sqlite3.OperationalError) as error:  # blobs of other lengths, texts that are not UTF-8
        raise InputError(f"{record}: the record is damaged ({error}); restore it from a copy") from error
    seeds = [split_seed(problem, run["config"]["seed"])[1] for problem in problems["problem"].tolist()]
    problems = problems.assign(seed=seeds, sampler=run["config"]["sampler"])
    return RunData(problems, scenes, information, outcomes, stages, run)


LARGE = 300_000_000
"""Size of a database in bytes above which its clouds and half of its outcomes are read in other processes."""


def _read(record: Path, query: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the columns of a query's result, chunk by chunk."""
    with contextlib.closing(open_to_read(record)) as db:
        yield from _chunks(db.execute(query))


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while rows := cursor.fetchmany(_CHUNK):
        yield list(zip(*rows, strict=True))


def _problems(record: Path) -> tuple[pd.DataFrame, Scenes, dict[int, NDArray[np.float64]]]:
    """Read the problems. Scenes are written into arrays of their number: joining parts would take twice the memory."""
    import pandas as pd

    query = f"SELECT {', '.join(_TAGS)}, truth, source_pose, eval_points, moments, information FROM problems ORDER BY problem"
    tags: dict[str, list[Any]] = {name: [] for name in _TAGS}
    interned: dict[Any, Any] = {}
    information: dict[int, NDArray[np.float64]] = {}
    with contextlib.closing(open_to_read(record)) as db:
        db.execute("BEGIN")  # a run that continues must not add problems after they were counted
        scenes = empty_scenes(*db.execute("SELECT COUNT(*) FROM problems").fetchone())
        for columns in _chunks(db.execute(query)):
            *_, truth, source_pose, points, stored, infos = columns
            start = len(tags["problem"])
            information |= {start + i: _matrices([b], 6)[0] for i, b in enumerate(infos) if b is not None}
            scenes.put(
                start, Scenes(_matrices(truth), _matrices(source_pose), *evaluation_points.decode(points, stored))
            )
            for name, values in zip(_TAGS, columns, strict=False):
                tags[name] += map(interned.setdefault, values, values) if name in _SHARED else values
    frame = pd.DataFrame(tags)
    for name in ("angle_deg", "translation", "overlap"):
        frame[name] = frame[name].astype("float64")  # SQLite stores NaN as NULL
    return frame, scenes, information


def _matrices(blobs: Any, size: int = 4) -> NDArray[np.float64]:
    return np.frombuffer(b"".join(blobs), np.float64).reshape(-1, size, size)


def scenes_of(
    truth: NDArray[np.float64], source_pose: NDArray[np.float64], clouds: list[NDArray[np.float32]]
) -> Scenes:
    """Build `Scenes` from true poses (P, 4, 4), poses of the source (P, 4, 4) and evaluation points, P arrays (n, 3)."""
    if not clouds:
        return join_scenes([])
    blobs = zip(*evaluation_points.encode_all(clouds), strict=True)
    return Scenes(truth, source_pose, *evaluation_points.decode(*blobs))


def join_scenes(parts: list[Scenes]) -> Scenes:
    """Concatenate scenes."""
    starts = np.cumsum([0, *(len(part.size) for part in parts)])
    joined = empty_scenes(starts[-1])
    for start, part in zip(starts, parts, strict=False):
        joined.put(start, part)
    return joined


def empty_scenes(count: int) -> Scenes:
    """Return arrays for the scenes of some problems, to be filled by `Scenes.put`."""
    truth, source_pose = np.empty((2, count, 4, 4))
    points = np.empty((count, evaluation_points.FIRST, 3), np.float32)
    moments = Moments(np.empty((count, 3)), np.empty((count, 3, 3)))
    return Scenes(truth, source_pose, moments, points, np.empty(count, np.intp))


_REPEATED = [
    "phase",
    "method",
    "kind",
    "dataset",
    "condition",
    "points",
    "repeat",
    "seed",
    "status",
    "device",
    "threads",
    "batch",
    "machine",
    "message",
]
_SEPARATOR = "\x1f"


class _Rows(NamedTuple):
    """Some outcomes: numbers (n,) of their texts among `keys` and `problems`, measured values, notes and poses (n, 16)."""

    key: NDArray[np.int32]
    keys: list[str]
    problem: NDArray[np.int32]
    problems: list[str]
    measured: NDArray[np.float64]
    notes: NDArray[np.object_]
    poses: NDArray[np.float64]


def _read_parts(record: Path, large: bool) -> list[_Rows]:
    """Read the outcomes, half of them in another process if there are many."""
    first, *others = _parts(record, 2 if large else 1)
    rest = parallel_map(partial(_read_outcomes, record), others, large)
    return [_read_outcomes(record, first), *rest]


def _outcomes(parts: list[_Rows]) -> pd.DataFrame:
    """Join and sort parts of the outcomes; the list is emptied, since their memory is needed."""
    import pandas as pd

    key, keys = _joined((part.key, part.keys) for part in parts)
    columns = _split(key, keys, _joined((part.problem, part.problems) for part in parts))
    order = _order(columns)
    frame = pd.DataFrame(columns).take(order).reset_index(drop=True)
    measured, notes, poses = (_in_place(arrays, order) for arrays in zip(*(part[4:] for part in parts), strict=True))
    parts.clear()
    for name, values in zip(_MEASURED, measured.T, strict=True):
        frame[name] = values
    frame["notes"] = pd.Series(notes, dtype=object)  # pandas would copy a million texts into its own type
    return pd.concat([frame, pd.DataFrame(poses, columns=POSE_COLUMNS, copy=False)], axis=1)


def _in_place(parts: Sequence[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[Any]:
    """Join arrays (n, ...) and sort their rows, with one copy."""
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    joined = np.empty((len(order), *parts[0].shape[1:]), parts[0].dtype)
    for rows, part in zip(np.split(place, np.cumsum([len(part) for part in parts[:-1]])), parts, strict=True):
        joined[rows] = part
    return joined


def _parts(record: Path, count: int) -> list[tuple[int, int]]:
    """Return the first outcome of each of `count` parts, counted from 0, and the number of its outcomes."""
    with contextlib.closing(open_to_read(record)) as db:
        (rows,) = db.execute("SELECT COUNT(*) FROM outcomes").fetchone()
    starts = [rows * part // count for part in range(count + 1)]
    return [(start, end - start) for start, end in itertools.pairwise(starts)]


def _read_outcomes(record: Path, part: tuple[int, int]) -> _Rows:
    """Read a part of the outcomes, given by its first one and their number.

    SQLite joins the repetitive columns to one text, so that a row costs one table lookup, not twelve. Parts have no row
    numbers as limits, because the views by which records of earlier versions are read have none.
    """
    joined = f"printf('{_SEPARATOR.join(['%s'] * len(_REPEATED))}', {', '.join(_REPEATED)})"
    encoders = _TextEncoder(), _TextEncoder()
    start, count = part
    key, problem = np.empty((2, count), np.int32)
    measured, notes, poses = np.empty((count, 3)), np.empty(count, object), np.empty((count, 16))
    query = f"SELECT {joined}, problem, {', '.join(_MEASURED)}, notes, pose FROM outcomes LIMIT {count} OFFSET {start}"
    end = 0
    with translate_errors(record):
        for texts, ids, *numbers, some_notes, blobs in _read(record, query):
            rows = slice(end, end := end + len(texts))
            key[rows], problem[rows] = encoders[0].encode(texts), encoders[1].encode(ids)
            measured[rows] = np.array(numbers, dtype=np.float64).T  # SQLite stores NaN as NULL
            interned: dict[str, str] = {}  # of a chunk: a dictionary of a million different notes would be slow
            notes[rows] = list(map(interned.setdefault, some_notes, some_notes))
            poses[rows] = _poses(blobs)
    texts_of_rows = key[:end], encoders[0].words, problem[:end], encoders[1].words
    return _Rows(*texts_of_rows, measured[:end], notes[:end], poses[:end])


def _joined(parts: Iterable[tuple[NDArray[np.int32], list[str]]]) -> tuple[NDArray[np.int32], list[str]]:
    """Return the numbers of the texts of all parts, each given by numbers and its own texts, and the texts."""
    texts = _TextEncoder()
    return np.concatenate([texts.encode(words)[codes] for codes, words in parts]), texts.words


class _TextEncoder:
    """Integer codes of texts, in order of first occurrence."""

    def __init__(self) -> None:
        self._codes: defaultdict[str, int] = defaultdict(itertools.count().__next__)

    def encode(self, texts: Iterable[str]) -> NDArray[np.int32]:
        """Return the code of each text."""
        return np.fromiter(map(self._codes.__getitem__, texts), dtype=np.int32)

    @property
    def words(self) -> list[str]:
        """Texts by code."""
        return list(self._codes)


def _split(key: NDArray[np.int32], keys: list[str], ids: tuple[NDArray[np.int32], list[str]]) -> dict[str, Any]:
    """Split the joined keys (rows,) into columns: texts as categories, counts as integers; add the problem ids."""
    fields = list(zip(*(text.split(_SEPARATOR, len(_REPEATED) - 1) for text in keys), strict=True)) or [()] * len(
        _REPEATED
    )
    table: dict[str, Any] = {"problem": _categories(np.arange(len(ids[1])), ids[1], ids[0])}
    for name, values in zip(_REPEATED, fields, strict=True):
        if name in _COUNTS:
            table[name] = np.array([int(v) for v in values], dtype=np.int64)[key]
        else:
            encoder = _TextEncoder()
            table[name] = _categories(encoder.encode(values), encoder.words, key)
    return table


def _categories(codes: NDArray[Any], words: list[str], rows: NDArray[np.int32]) -> pd.Categorical:
    """Return the texts `words[codes[row]]` of some rows as categories in alphabetical order."""
    import pandas as pd

    place = np.empty(len(words), np.intp)
    place[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
    return pd.Categorical.from_codes(place[codes][rows], pd.Index(sorted(words), dtype="str"))


def _poses(blobs: tuple[bytes | None, ...]) -> NDArray[np.float64]:
    """Decode poses (n, 16), NaN where missing."""
    none = np.full(16, np.nan).tobytes()
    return np.frombuffer(b"".join([none if b is None else b for b in blobs]), np.float64).reshape(-1, 16)


def in_order(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Sort outcomes by key and phase, and their text columns' categories alphabetically."""
    kept = outcomes.copy(deep=False)
    for name in _TEXTS:
        text = kept[name].astype("category").cat.remove_unused_categories()
        kept[name] = text.cat.reorder_categories(sorted(text.cat.categories))
    return kept.take(_order({name: kept[name].array for name in ("phase", *KEY_COLUMNS)})).reset_index(drop=True)


def _order(columns: Mapping[str, Any]) -> NDArray[np.intp]:
    """Return the order of outcomes by key and phase, given columns with sorted categories."""
    keys = [columns[name] for name in ("phase", *reversed(KEY_COLUMNS))]
    return np.lexsort([np.asarray(key.codes if hasattr(key, "codes") else key) for key in keys])


def _stages(record: Path) -> pd.DataFrame:
    """Read the stages of the timed outcomes, see `bench.evaluation.aggregate.timed`."""
    import orjson
    import pandas as pd

    methods, machines, devices, names = _TextEncoder(), _TextEncoder(), _TextEncoder(), _TextEncoder()
    parts: list[tuple[NDArray[Any], ...]] = [tuple(np.zeros(0, dtype=np.int32) for _ in range(6))]
    where = f"WHERE phase = ({TIMED}) AND batch = 1 AND stages != '{{}}'"
    query = f"SELECT method, points, machine, device, stages FROM outcomes {where}"
    for methods_of_rows, points, machines_of_rows, devices_of_rows, texts in _read(record, query):
        stages = orjson.loads("[" + ",".join(texts) + "]")
        times = np.fromiter(itertools.chain.from_iterable(map(dict.values, stages)), dtype=np.float64)
        calls = np.repeat(np.arange(len(stages)), np.fromiter(map(len, stages), dtype=np.int64))
        stage = names.encode(itertools.chain.from_iterable(stages))
        where_run = machines.encode(machines_of_rows), devices.encode(devices_of_rows)
        places = methods.encode(methods_of_rows), np.array(points), *where_run
        parts.append((*(column[calls] for column in places), stage, times))
    method, size, machine, device, stage, ms = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pd.DataFrame(
        {
            "method": pd.Categorical.from_codes(method, pd.Index(methods.words, dtype=object)),
            "points": size.astype(np.int64),
            "machine": pd.Categorical.from_codes(machine, pd.Index(machines.words, dtype=object)),
            "device": pd.Categorical.from_codes(device, pd.Index(devices.words, dtype=object)),
            "stage": pd.Categorical.from_codes(stage, pd.Index(names.words, dtype=object)),
            "time_ms": ms.astype(np.float64),
        }
    )


TIMED = (
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM outcomes WHERE phase = 'timing' AND status != 'skipped') "
    "THEN 'timing' ELSE 'accuracy' END"
)


def merge(parts: list[RunData], names: list[str]) -> RunData:
    """Merge several runs, to report them together.

    Raises:
        InputError: runs differ in a problem, or both contain the same method on the same problems.
    """
    import pandas as pd

    for i, later in enumerate(parts):
        for earlier, name in zip(parts[:i], names, strict=False):
            _check_mergeable(earlier, later, name, names[i])
    problems = pd.concat([p.problems for p in parts])
    scenes = join_scenes([p.scenes for p in parts])
    starts = np.cumsum([0, *(len(p.problems) for p in parts)])
    infos = {int(s) + row: m for s, p in zip(starts, parts, strict=False) for row, m in p.information.items()}
    first = np.flatnonzero(~problems["problem"].duplicated().to_numpy())
    order = first[np.argsort(problems["problem"].to_numpy()[first], kind="stable")]
    new_row = {int(old): new for new, old in enumerate(order)}
    text = dict.fromkeys(_TEXTS, str)
    outcomes = pd.concat([p.outcomes.astype(text) for p in parts], ignore_index=True)
    return RunData(
        problems.take(order).reset_index(drop=True),
        scenes.take(order),
        {new_row[row]: m for row, m in infos.items() if row in new_row},
        in_order(outcomes),
        pd.concat([p.stages for p in parts], ignore_index=True),
        _merged_run([p.run for p in parts]),
    )


def _check_mergeable(a: RunData, b: RunData, name_a: str, name_b: str) -> None:
    """Check that problems with the same id are the same, and that no outcome occurs twice."""
    both = a.problems.merge(b.problems, on="problem", suffixes=("", "_b"))
    changed = both[both["digest"] != both["digest_b"]]
    if len(changed):
        raise InputError(
            f"{name_a} and {name_b}: problem {changed['problem'].iloc[0]} has different clouds (another seed, other "
            f"angles or other data); report them separately"
        )
    keys = [
        set(x.outcomes[["method", "dataset", "condition", "points", "phase"]].itertuples(index=False)) for x in (a, b)
    ]
    if twice := {k for k in keys[0] & keys[1] if k.phase == "accuracy"}:
        k = min(twice)
        raise InputError(
            f"{name_a} and {name_b}: both contain {k.method} on {k.dataset}/{k.condition}/{k.points}; "
            f"bench.py compare {name_a} {name_b} compares them"
        )


def _merged_run(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the `run.json` of runs: configuration and environment of the first, everything else of all."""
    merged = dict(runs[0])
    merged["command"] = " ; ".join(r["command"] for r in runs)
    for name in ("problem_sets", "data", "methods", "unavailable"):
        merged[name] = {k: v for r in runs for k, v in r.get(name, {}).items()}
    merged["notes"] = list(dict.fromkeys(n for r in runs for n in r.get("notes", [])))
    merged["config"] = runs[0]["config"] | {
        "angle_bins": sorted({edge for r in runs for edge in r["config"]["angle_bins"]})
    }
    return merged
