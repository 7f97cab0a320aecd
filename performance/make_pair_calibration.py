"""Calibrate the probability that `bench.py pair` prints, and test it on pairs that are not used for it.

    python -m performance.make_pair_calibration collect CACHE DATA [SET …]
    python -m performance.make_pair_calibration evidence CACHE
    python -m performance.make_pair_calibration fit CACHE
    python -m performance.make_pair_calibration test CACHE

`collect` registers the pairs of the sets below by the methods below and stores the poses in CACHE, one JSON a pair; a second
call continues. DATA holds the real data. `evidence` computes the evidence for the best pose of each pair; delete its files
after a change of the evidence. `fit` writes `bench/pair/calibration.toml` from the sets for calibration. `test` prints
calibration error, precision and recall of the grades on the others. No object, scan or fragment is in a set for the fit and in
another.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.evaluation import metrics
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.pair.clouds import Scans, open_scans
from bench.pair.families import family
from bench.pair.freedom import Freedom, Motion
from bench.pair.grade import CONSENSUS, Calibration, Evidence, Feature, calibration, judge
from bench.pair.register import Registration, defaults, register, select_methods
from bench.pair.result import assess
from common.keys import rng
from common.kinds import DataKind
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry

POINTS = defaults()["points"]
METHODS = (
    *("pca", "fgr+icp", "ransac10k+icp", "teaser", "kiss_matcher", "sc2_pcr", "so3_grid"),
    *("deepgmr", "deepgmr_resampled", "deepgmr_partial", "small_gicp"),
)
"""Methods: one of each family of the default that finds right poses of scans, in a third of the default's time."""
TIMEOUT_S = 20.0
ALL_POINTS = 10**7
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Quadratic penalties of the weights to choose from, by leave-one-out validation on the calibration pairs."""
SIGNS = {"rivals": -1, "residual": -1}
"""Signs of the weights, +1 for the other features: more evidence never makes a pose less probable."""
PRECISION = 0.98
"""Least share of right poses among the calibration pairs called consensus, which determines the least probability."""
LEAST_CONSENSUS, NONE_BELOW = 0.9, 0.1
BINS = 10
PARTS = 3
"""Random parts of the methods by which each pair is assessed, too: a user may name a few, and some may be unavailable."""
SIMULATIONS = 2000
"""Simulated sets of pairs for the calibration error of a perfect model."""
LEAST_OVERLAP = 0.4
FILE = Path(__file__).resolve().parents[1] / "bench" / "pair" / "calibration.toml"
Array = NDArray[np.float64]


FIT, TEST, OUTSIDE = "fit", "test", "outside"


@dataclass(frozen=True)
class PairSource:
    """A set of pairs.

    Attributes:
        dataset, condition, split: as on the command line of `bench.py`.
        count: most pairs.
        use: FIT, TEST, or OUTSIDE for pairs of a kind for which the model does not hold, see docs/own-scans.md.
        chosen: pattern of the names of its pairs; empty for all.
    """

    dataset: str
    condition: str
    count: int
    use: str
    split: str = "test"
    chosen: str = ""


KITCHEN, HOTEL = "7-scenes-redkitchen", "sun3d-hotel_umd-maryland_hotel3"
LOW, HIGH = r"(\d|[12]\d)", r"([3-5]\d)"
SETS = {
    "objects": PairSource("shapes40", "resampled", 20, FIT, "train"),
    "rooms": PairSource("rooms[split=train,scenes=20]", "real", 33, FIT),
    "kitchen_low": PairSource("fragments", "real", 33, FIT, chosen=rf"{KITCHEN}/{LOW}-{LOW}"),
    "objects_test": PairSource("shapes40", "resampled", 20, TEST, "test"),
    "bunny": PairSource("stanford[min_overlap=0]", "real", 15, TEST),
    "range": PairSource("fragments[path=range_pairs]", "real", 8, TEST),
    "hotel": PairSource("fragments", "real", 26, TEST, chosen=rf"{HOTEL}/.*"),
    "kitchen_high": PairSource("fragments", "real", 33, TEST, chosen=rf"{KITCHEN}/{HIGH}-{HIGH}"),
    "rooms_test": PairSource("rooms[scenes=10]", "real", 30, TEST),
    "views": PairSource("shapes40", "partial", 20, OUTSIDE, "test"),
}


def pairs_of(source: PairSource, registry: DataRegistry) -> Iterator[Problem]:
    """Yield the pairs of a set."""
    dataset = registry.spec(source.dataset).open()
    real, views_made = source.condition == "real", 0
    for index in range(len(dataset) if real else source.count):  # type: ignore[arg-type]
        points = ALL_POINTS if real else POINTS
        problem = make_problem(dataset, ProblemKey(source.dataset, source.condition, points, index, split=source.split))
        if not source.chosen or re.fullmatch(source.chosen, problem.tags["object"]):
            views_made += 1
            yield problem
        if views_made == source.count:
            return


def scans_of(problem: Problem, folder: Path) -> Scans:
    """Open the pair as `bench.py pair` does, from files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, cloud in (("source", problem.source), ("target", problem.target)):
        np.save(folder / f"{name}.npy", cloud)
    return open_scans((folder / "source.npy", folder / "target.npy"), POINTS, 1.0)


def collect(cache: Path, registry: DataRegistry, names: list[str]) -> None:
    """Register the pairs of all sets in turn, one of each, and store their poses."""
    processes: dict[DataKind, list[MethodProcess]] = {}
    running = {name: pairs_of(SETS[name], registry) for name in names}
    try:
        while running:
            for name, pairs in list(running.items()):
                if (problem := next(pairs, None)) is None:
                    del running[name]
                else:
                    _collect_pair(name, problem, cache, processes)
    finally:
        for process in itertools.chain.from_iterable(processes.values()):
            process.close()


def _processes(kind: DataKind) -> list[MethodProcess]:
    """Return processes of the methods with their settings for a kind of data; they start when first used."""
    limits = Limits(TIMEOUT_S, defaults()["memory_limit_gb"])
    methods = select_methods(list(METHODS), MethodRegistry())
    return [MethodProcess(MethodSetup(method, "", threads=1, kind=kind), limits) for method in methods]


def _collect_pair(name: str, problem: Problem, cache: Path, processes: dict[DataKind, list[MethodProcess]]) -> None:
    """Register a pair unless it is stored already."""
    folder = cache / name / f"{problem.key.index:05d}"
    if (folder / "poses.json").exists():
        return
    start = time.perf_counter()
    scans = scans_of(problem, folder)
    if scans.kind not in processes:
        processes[scans.kind] = _processes(scans.kind)
    rows = [register(scans, process) for process in processes[scans.kind]]
    stored = {
        "set": name,
        "tags": problem.tags,
        "T_true": problem.T_target_source.tolist(),
        "source_pose": problem.source_pose.tolist(),
        "methods": [
            {"method": r.method, "status": r.status, "time_ms": r.time_ms, "message": r.message}
            | {"pose": None if r.pose is None else r.pose.tolist()}
            for r in rows
        ],
    }
    (folder / "poses.json").write_text(json.dumps(stored))
    slow = sorted(((r.time_ms, r.method) for r in rows), reverse=True)[:4]
    print(f"{time.perf_counter() - start:6.1f} s  {name} {problem.tags['object']}  {slow}", flush=True)


CLOSED = Freedom((), math.nan, math.nan)
OPEN = Freedom((Motion(np.eye(3)[0], None),), 0.0, math.nan)


@dataclass(frozen=True)
class Row:
    """Evidence for the best pose of a pair, and whether it is right: within `Scans.alike` of the true pose.

    `pair` is its number in the set. `whole` tells that all methods were used, not a part of them.
    """

    set: str
    pair: int
    whole: bool
    overlap: float
    evidence: Evidence
    is_open: bool
    right: bool


def evaluate_all(cache: Path) -> None:
    """Compute the evidence of every stored pair that has none, and write `evidence.json` beside its poses."""
    registry = MethodRegistry()
    for file in sorted(cache.glob("*/*/poses.json")):
        stored, folder = json.loads(file.read_text()), file.parent
        if (folder / "evidence.json").exists():
            continue
        scans = open_scans((folder / "source.npy", folder / "target.npy"), POINTS, 1.0)
        posed = [r for row in stored["methods"] if (r := _registration(row, registry)).pose is not None]
        number = int(folder.name)
        parts = [posed, *_parts(posed, rng("pair calibration", stored["set"], number))]
        results = {tuple(r.method for r in part): assess(scans, part) for part in parts if part}
        rows = [
            Row(
                *(stored["set"], number, len(names) == len(posed), stored["tags"]["overlap"]),
                *(evidence[0], bool(evidence[1].motions)),
                _is_right(stored, next(r.pose for r in posed if r.method == names[group.best]), scans),
            )
            for names, (_, _, group, evidence) in results.items()
            if group is not None and evidence is not None
        ]
        (folder / "evidence.json").write_text(json.dumps([asdict(row) for row in rows]))


def _parts(posed: Sequence[Registration], draw: np.random.Generator) -> Iterator[list[Registration]]:
    """Yield `PARTS` random parts of registrations, each with about half of the families."""
    families = sorted({r.family for r in posed})
    for _ in range(PARTS):
        kept = {name for name, keep in zip(families, draw.random(len(families)) < 0.5, strict=True) if keep}
        yield [r for r in posed if r.family in kept]


def _registration(row: dict[str, Any], registry: MethodRegistry) -> Registration:
    spec = registry.spec(row["method"])
    pose = None if row["pose"] is None else np.array(row["pose"])
    return Registration(spec.text, spec.kind, family(spec), row["status"], row["time_ms"], pose, row["message"])


def _is_right(stored: dict[str, Any], pose: Any, scans: Scans) -> bool:
    """Return whether a pose is within `alike` of the true one, or of one that is equal by the object's symmetry."""
    true, frame = np.array(stored["T_true"]), np.array(stored["source_pose"])
    error = metrics.rmse_symmetric(pose, true, frame, scans.source.thin, stored["tags"]["symmetry"] or "C1")
    return bool(error <= scans.alike)


def rows_of(cache: Path, use: str) -> list[Row]:
    """Read the evidence of the sets for a use."""
    files = [file for name, s in SETS.items() if s.use == use for file in sorted(cache.glob(f"{name}/*"))]
    stored = [json.loads((f / "evidence.json").read_text()) for f in files if (f / "evidence.json").exists()]
    return [Row(**{**row, "evidence": Evidence(**row["evidence"])}) for rows in stored for row in rows]


def design(rows: Sequence[Row]) -> tuple[list[str], Array, Array]:
    """Return the names of the features, their values (N, F), and whether the poses are right (N,)."""
    names = [f.name for f in fields(Evidence)]
    features = [row.evidence.features() for row in rows]
    X = np.array([[values[name] for name in names] for values in features])
    return names, X, np.array([row.right for row in rows], dtype=float)


def fit(rows: Sequence[Row], penalty: float) -> Calibration:
    """Fit the logistic model with a quadratic penalty on the weights of the standardised features, whose signs are fixed."""
    names, X, y = design(rows)
    mean, scale = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-6)
    Z = np.column_stack([(X - mean) / scale, np.ones(len(X))])

    def loss(w: Array) -> tuple[float, Array]:
        odds = Z @ w
        slope = np.r_[np.full(len(names), penalty), 0.0] * w
        value = np.logaddexp(0, odds).sum() - y @ odds + 0.5 * slope @ w
        return float(value), Z.T @ (1 / (1 + np.exp(-odds)) - y) + slope

    bounds = [(None, 0.0) if SIGNS.get(name, 1) < 0 else (0.0, None) for name in names] + [(None, None)]
    w = minimize(loss, np.zeros(Z.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    model = {n: Feature(float(m), float(s), float(v)) for n, m, s, v in zip(names, mean, scale, w, strict=False)}
    return Calibration(float(w[-1]), model, 1.0, NONE_BELOW)


def calibrate(rows: Sequence[Row]) -> Calibration:
    """Fit with the penalty of the smallest loss over pairs left out, and choose the least probability of a consensus."""

    def loss(penalty: float) -> float:
        total = 0.0
        for row in with_all_methods(rows):
            others = [other for other in rows if (other.set, other.pair) != (row.set, row.pair)]
            p = fit(others, penalty).probability(row.evidence)
            total -= math.log(p if row.right else 1 - p)
        return total

    model = fit(rows, min(PENALTIES, key=loss))
    for least in np.arange(LEAST_CONSENSUS, 1.0, 0.01):
        graded = replace(model, consensus=round(float(least), 2))
        called = [row.right for row in with_all_methods(rows) if is_consensus(row, graded)]
        if called and np.mean(called) >= PRECISION:
            return graded
    raise SystemExit("no probability gives the required precision; collect more pairs")


def with_all_methods(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of all methods."""
    return [row for row in rows if row.whole]


def is_consensus(row: Row, model: Calibration) -> bool:
    """Return whether the grade is a consensus."""
    return judge(row.evidence, OPEN if row.is_open else CLOSED, model).name == CONSENSUS


def write_model(model: Calibration, rows: Sequence[Row]) -> None:
    """Write the model as TOML, with the command and the numbers of pairs that it was fitted to."""
    rows = with_all_methods(rows)
    counts = Counter(row.set for row in rows)
    lines = [
        "# Written by `python -m performance.make_pair_calibration fit CACHE`; do not edit.",
        f"# Pairs: {', '.join(f'{name} {count}' for name, count in counts.items())}; "
        f"{sum(row.right for row in rows)} of {len(rows)} best poses are right.",
        *(f"{name} = {getattr(model, name):.6g}" for name in ("intercept", "consensus", "none")),
    ]
    for name, feature in model.features.items():
        lines += ["", f"[features.{name}]", *(f"{key} = {value:.6g}" for key, value in feature._asdict().items())]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def calibration_error(probability: Array, right: Array) -> float:
    """Return the expected calibration error over `BINS` bins of equal width."""
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = [abs((probability - right)[bins == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / len(right))


def perfect_error(probability: Array) -> tuple[float, float]:
    """Return mean and 95 % quantile of the calibration error of pairs that are right with exactly these probabilities (n,)."""
    draw = rng("perfect calibration")
    simulated = [draw.random(len(probability)) < probability for _ in range(SIMULATIONS)]
    errors = [calibration_error(probability, right.astype(float)) for right in simulated]
    return float(np.mean(errors)), float(np.quantile(errors, 0.95))


def report(rows: Sequence[Row], model: Calibration) -> None:
    """Print the calibration error and the precision and recall of the grade "consensus", per set and for all, and the bins.

    The calibration error of few pairs is above 0 even for a perfect model, see `perfect_error`.
    """
    rows = with_all_methods(rows)
    for name in (*dict.fromkeys(row.set for row in rows), "all"):
        some = [row for row in rows if name in (row.set, "all")]
        p = np.array([model.probability(row.evidence) for row in some])
        right, overlap = np.array([row.right for row in some]), np.array([row.overlap for row in some])
        agreed = np.array([is_consensus(row, model) for row in some])
        known = right & (overlap >= LEAST_OVERLAP)
        print(
            f"{name:13} pairs {len(some):3}  right {right.sum():3}  calibration error {calibration_error(p, right):.3f}  "
            f"consensus {agreed.sum():3}, right {(agreed & right).sum():3}  "
            f"right with overlap >= {LEAST_OVERLAP}: {known.sum():3}, consensus {(known & agreed).sum():3}"
        )
    mean, high = perfect_error(p)
    print(f"calibration error of a perfect model: mean {mean:.3f}, 95 % quantile {high:.3f}")
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    for b in np.unique(bins):
        inside = bins == b
        print(f"probability {p[inside].mean():.2f}  right {right[inside].mean():.2f}  pairs {inside.sum()}")


def main(command: str, cache: str, *rest: str) -> None:
    """Run a command."""
    folder = Path(cache)
    if command == "collect":
        collect(folder, DataRegistry.at(rest[0]), list(rest[1:]) or list(SETS))
    elif command == "evidence":
        evaluate_all(folder)
    elif command == "fit":
        rows = rows_of(folder, FIT)
        write_model(model := calibrate(rows), rows)
        report(rows, model)
    elif command == "test":
        for use in (TEST, OUTSIDE):
            report(rows_of(folder, use), calibration())
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
