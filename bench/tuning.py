"""`bench.py tune METHOD`: search better parameters on training problems, with a budget of calls.

Successive halving over random candidates: all candidates are evaluated on a few problems, the better half on twice as many,
until two are left. The default settings are one of the candidates and are never dropped. A better candidate is then compared
with the default on held-out training objects, and is kept only if it is better there, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation import metrics, statistics
from bench.execution import pool_worker
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.planning.catalog import Catalog
from bench.planning.tasks import domain_of
from bench.storage.outcome import Phase, Status
from common import specs
from common.devices import CPU
from common.errors import InputError, unknown
from common.files import write_atomically
from common.keys import rng as rng_of
from datasets.base import NotEnoughPoints
from datasets.conditions import condition
from datasets.problems import Problem, ProblemKey, make_problem
from methods.base import LogUniform
from methods.core.registry import MethodEntry, MethodSpec
from methods.core.tuned import TUNED, read_tuned, tuned_file
from methods.learned.training_data import Part

if TYPE_CHECKING:
    from rich.console import Console

FIRST_PROBLEMS = 5
"""Problems that every candidate is evaluated on."""
SEARCH_SHARE = 2 / 3
"""Maximum share of the budget for the search; the rest is for the validation."""
MIN_BUDGET = 30
"""Minimum number of calls."""
KEEP_DEFAULT_PROBABILITY = 0.5
"""Probability of each parameter to keep its default value in a candidate."""
MEMORY_GB = 8.0
"""Memory limit of the method."""
MAX_ERROR = 1.0
"""Error of a failure, and upper bound of all errors: the size of a large error carries no information."""
FILE_HEADER = "# Written by bench.py tune. METHOD[tuned=NAME] is the method with the values of [METHOD.NAME].\n"


@dataclass(frozen=True)
class TuneRequest:
    """Request of a search.

    Attributes:
        method: name of the method.
        dataset, condition, points: the training problems.
        budget: total number of calls.
        seed: of candidates and problems.
        timeout: of a call, in seconds.
        name: name of the settings.
        catalog: registries of methods and data sets.
        command: command line, stored with the settings.
        device: that the method may use, as resolved by `common.devices`.
    """

    method: str
    dataset: str
    condition: str
    points: int
    budget: int
    seed: int
    timeout: float
    name: str
    catalog: Catalog
    command: str
    device: str = CPU


@dataclass(frozen=True)
class Score:
    """Errors (n,) of one candidate on the first n problems, in the unit of the clouds and at most 1; mean time in ms."""

    errors: tuple[float, ...]
    time_ms: float

    @property
    def mean(self) -> float:
        """Mean error, which the search minimises."""
        return float(np.mean(self.errors))


class CandidateEvaluator:
    """Evaluator of candidates on problems in a fixed order. Results are kept, so that no call is made twice.

    Args:
        process: process of the method.
        problems: to evaluate candidates on.
    """

    def __init__(self, process: MethodProcess, problems: list[Problem]) -> None:
        self.process, self.problems = process, problems
        self.results: dict[str, list[tuple[float, float]]] = {}  # error and time in ms of each call by candidate

    def score(self, candidate: str, count: int) -> Score:
        """Return the score of a candidate on the first `count` problems."""
        results = self.results.setdefault(candidate, [])
        if len(results) < count:
            setup = self.process.setup
            self.process.set_up(replace(setup, method=setup.method.registry.spec(candidate)))
        for problem in self.problems[len(results) : count]:
            outcome = pool_worker.solve_problems(self.process, [problem], Phase.ACCURACY, 0)[0]
            error = MAX_ERROR
            if outcome.pose is not None:
                error = float(metrics.rmse(outcome.pose, problem.T_target_source, problem.evaluation_points))
            results.append((min(error, MAX_ERROR), outcome.time_ms))
        errors, times = zip(*results[:count], strict=True)
        return Score(errors, float(np.mean(times)))


def run(request: TuneRequest, console: Console) -> Path:
    """Search, print the progress, write the settings and return their file.

    Raises:
        InputError: the request is invalid, or the method cannot be tuned.
    """
    space, stages = search_space(request), search_stages(request.budget)
    candidates = draw_candidates(request, space, stages[0][0])
    problems = training_problems(request, held_out=False, count=stages[-1][1])
    held_out = training_problems(request, held_out=True, count=validation_problems(request.budget))
    process = start_method(request)
    try:
        console.print(f"{request.name}: {', '.join(space)} of {request.method}", highlight=False, soft_wrap=True)
        search = CandidateEvaluator(process, problems)
        best = successive_halving(search, candidates, stages, console)
        results = compare_with_default(request, best, search, CandidateEvaluator(process, held_out))
    finally:
        process.close()
    facts = {"command": request.command, "budget": request.budget, "seed": request.seed, "candidates": len(candidates)}
    entry = facts | results
    file = tuned_file(request.catalog.methods.plugins)
    save_settings(file, request.method, request.name, entry)
    spec = f"{request.method}[{TUNED}={request.name}]"
    values = entry["values"] or f"no values, the same as {request.method}; kept to document the search"
    console.print(f"{entry['verdict']}\n{spec} in {file}: {values}", highlight=False, soft_wrap=True)
    return file


def default_name(dataset: str, condition_text: str) -> str:
    """Return a name such as `modelnet40_noisy`; other characters than letters and digits become `_`."""
    return re.sub(r"\W+", "_", f"{dataset}_{condition_text}").strip("_")


def search_space(request: TuneRequest) -> dict[str, tuple[Any, ...] | LogUniform]:
    """Return the values or range of every parameter that a search may vary.

    Raises:
        InputError: the method does not exist, has no such parameter or is not available, or the name is invalid.
    """
    entries = request.catalog.methods.entries
    if request.method not in entries:
        raise unknown("method", request.method, entries)
    if not re.fullmatch(r"\w+", request.name):
        raise InputError(f"--name '{request.name}': use letters, digits and _ only")
    entry = entries[request.method]
    space = _declared_space(entry)
    if not space:
        tunable = ", ".join(name for name, other in entries.items() if _declared_space(other))
        raise InputError(f"{request.method}: its class declares no 'search' to tune; methods that do: {tunable}")
    if reason := entry.unavailable():
        raise InputError(f"{request.method} cannot be tuned: {reason}")
    return space


def _declared_space(entry: MethodEntry) -> dict[str, tuple[Any, ...] | LogUniform]:
    """Return the search space of a method.

    Raises:
        InputError: the class declares a search for a parameter that does not exist.
    """
    if entry.facts.search_fault:
        raise InputError(entry.facts.search_fault)
    return entry.facts.search


def search_stages(budget: int) -> list[tuple[int, int]]:
    """Return the stages of the search within its share of the budget: number of candidates, and problems per candidate.

    Raises:
        InputError: the budget is too small.
    """
    if budget < MIN_BUDGET:
        raise InputError(f"--budget {budget}: too small to compare settings; give at least {MIN_BUDGET} calls")
    stages = _stages(2)
    while count_calls(larger := _stages(stages[0][0] + 1)) <= SEARCH_SHARE * budget:
        stages = larger
    return stages


def _stages(candidates: int) -> list[tuple[int, int]]:
    stages = [(candidates, FIRST_PROBLEMS)]
    while stages[-1][0] > 2:
        stages.append((max(2, stages[-1][0] // 2), 2 * stages[-1][1]))
    return stages


def count_calls(stages: list[tuple[int, int]]) -> int:
    """Return the number of calls in stages; a candidate keeps its results of earlier stages."""
    earlier = [0, *(problems for _, problems in stages)]
    return sum(n * (problems - before) for (n, problems), before in zip(stages, earlier, strict=False))


def validation_problems(budget: int) -> int:
    """Return the number of held-out problems on which two candidates can be compared after the search."""
    return (budget - count_calls(search_stages(budget))) // 2


def draw_candidates(request: TuneRequest, space: Mapping[str, tuple[Any, ...] | LogUniform], count: int) -> list[str]:
    """Return the default settings, then random ones: `count` different specs, or fewer if there are not so many."""
    candidates = {request.method: None}
    for number in range(20 * count):
        if len(candidates) == count:
            break
        rng = rng_of("tune", request.method, request.seed, number)
        drawn = {n: _draw_value(v, rng) for n, v in space.items() if rng.random() >= KEEP_DEFAULT_PROBABILITY}
        if drawn:
            candidates[spec_of(request.method, drawn)] = None
    return list(candidates)


def _draw_value(values: tuple[Any, ...] | LogUniform, rng: np.random.Generator) -> Any:
    """Draw a value, with at most three digits if it comes from a range: the printed value is then exact."""
    if not isinstance(values, LogUniform):
        return values[rng.integers(len(values))]
    value = float(f"{np.exp(rng.uniform(np.log(values.low), np.log(values.high))):.3g}")
    return round(value) if isinstance(values.low, int) and isinstance(values.high, int) else value


def spec_of(method: str, values: Mapping[str, Any]) -> str:
    """Return the text of a method with parameter values."""
    return f"{method}[{','.join(f'{name}={value}' for name, value in values.items())}]"


def training_problems(request: TuneRequest, held_out: bool, count: int) -> list[Problem]:
    """Return the first training problems, of the held-out objects or of the others.

    Raises:
        InputError: the data set has real pairs, or its objects have too few points.
    """
    dataset, posed = request.catalog.data.spec(request.dataset).objects(), condition(request.condition)
    if posed.real:
        raise InputError(f"--condition {request.condition}: is for sets of real pairs, which have no train split")
    try:
        points = posed.points_available(request.points, dataset.fixed_points)
    except NotEnoughPoints as reason:
        raise InputError(f"--points {request.points} of {request.dataset}, {request.condition}: {reason}") from reason
    key = ProblemKey(request.dataset, request.condition, points, 0, request.seed, split="train")
    part = Part(dataset, held_out)
    return [make_problem(part, replace(key, index=i)) for i in range(count)]


def start_method(request: TuneRequest) -> MethodProcess:
    """Start the process in which the method is evaluated.

    Raises:
        InputError: the method cannot be set up.
    """
    dataset = request.catalog.data.spec(request.dataset).objects()
    domain = domain_of(dataset, condition(request.condition))
    method = request.catalog.methods.spec(request.method)
    setup = MethodSetup(method, domain, method.device_on(request.device), seed=request.seed, kind=dataset.kind)
    process = MethodProcess(setup, Limits(request.timeout, MEMORY_GB))
    ready = process.start()
    if ready.status != Status.OK:
        process.close()
        raise InputError(f"{request.method} cannot be tuned: {ready.message}")
    return process


def successive_halving(
    search: CandidateEvaluator, candidates: list[str], stages: Iterable[tuple[int, int]], console: Console
) -> str:
    """Return the candidate with the smallest mean error, then time; the first, the default, takes part in all stages."""
    default, ranked = candidates[0], candidates
    for number, problems in stages:
        kept = ranked[:number] if default in ranked[:number] else [*ranked[: number - 1], default]
        scores = {c: search.score(c, problems) for c in kept}
        ranked = sorted(kept, key=lambda c: (scores[c].mean, scores[c].time_ms))
        line = f"{len(kept):4} on {problems:4} problems  default {scores[default].mean:.4f}  "
        console.print(f"{line}best {scores[ranked[0]].mean:.4f} {ranked[0]}", highlight=False, soft_wrap=True)
    return ranked[0]


def compare_with_default(
    request: TuneRequest, best: str, search: CandidateEvaluator, held_out: CandidateEvaluator
) -> dict[str, Any]:
    """Return the values to keep (none for the default), the reason, and the scores of default and best candidate."""
    pair = request.method, best
    training = [search.score(c, len(search.problems)) for c in pair]
    default, tuned = (held_out.score(c, len(held_out.problems)) for c in pair)
    gain = statistics.paired_difference(np.array(tuned.errors), np.array(default.errors), request.method, request.seed)
    means = f"on held-out objects: {tuned.mean:.4f}, not {default.mean:.4f}"
    if best == request.method:
        verdict = "the default stays: no candidate is better on the training problems"
    elif gain.mean < 0:
        better = "better than" if gain.p < statistics.ALPHA else "kept, but not separable from"
        verdict = f"{better} the default {means} (p {gain.p:.2g})"
    else:
        verdict = f"the default stays: {best} is not better {means}"
    return {
        "verdict": verdict,
        "values": written_values(request.catalog.methods.spec(best)) if gain.mean < 0 else {},
        "found": best,
        "training": _scores(*training),
        "validation": _scores(default, tuned) | {"difference": _rounded(gain[:3]), "p": _rounded(gain[3:])[0]},
    }


def written_values(method: MethodSpec) -> dict[str, Any]:
    """Return the parameters written in a spec, as the method has them; "none" for None, which TOML lacks."""
    values = method.parameters
    return {name: "none" if values[name] is None else values[name] for name in specs.parse(method.text).given}


def _scores(default: Score, tuned: Score) -> dict[str, Any]:
    """Return the mean error, the mean of min(rmse, 1), and the mean time in ms of default and best candidate."""
    means = _rounded([default.mean, tuned.mean])
    times = [float(f"{score.time_ms:.3g}") for score in (default, tuned)]
    return {"problems": len(default.errors), "default": means[0], "found": means[1], "ms": times}


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), 4) for value in values]


def save_settings(file: Path, method: str, name: str, entry: Mapping[str, Any]) -> None:
    """Add settings to a file under their method and name."""
    entries = read_tuned(file)
    entries.setdefault(method, {})[name] = dict(entry)
    tables = [
        f"\n[{_key(m)}.{_key(n)}]\n" + "".join(f"{_key(k)} = {toml(v)}\n" for k, v in entries[m][n].items())
        for m in sorted(entries)
        for n in sorted(entries[m])
    ]
    write_atomically(file, FILE_HEADER + "".join(tables))


def toml(value: Any) -> str:
    """Format a text, number, list or table as TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {toml(v)}" for k, v in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)
