"""`bench.py tune METHOD`: a search for better parameters, on training problems alone and with a budget of calls.

Successive halving over random draws: all candidates are asked a few problems, the better half twice as many, and so on until
two are left. The default settings are one of the candidates and are never dropped. What beats them is then compared with them
on held-out training objects that the search did not see, and is kept only if it is better there, too.
"""

from __future__ import annotations

import dataclasses
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
"""Problems that every candidate is asked."""
SEARCH_SHARE = 2 / 3
"""Of the budget, at most, for the search; the rest is for the validation."""
LEAST_BUDGET = 30
STAY = 0.5
"""The chance of each parameter to keep its default value in a draw: draws near the default are tried, too."""
MEMORY_GB = 8.0
WORST = 1.0
"""The error of a failure, and the most that a wrong answer counts: how wrong it is tells nothing."""
HEAD = "# Written by bench.py tune. METHOD[tuned=NAME] is the method with the values of [METHOD.NAME].\n"


@dataclass(frozen=True)
class TuneRequest:
    """What is searched: a method on a data set's condition, with N = `points`, and `budget` calls; `timeout` in seconds.

    `name` names the settings, `catalog` resolves methods and data sets, `command` is stored with the settings.
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


@dataclass(frozen=True)
class Score:
    """Errors (n,) of one candidate on the first n problems, in the unit of the clouds and at most 1; mean time in ms."""

    errors: tuple[float, ...]
    time_ms: float

    @property
    def mean(self) -> float:
        """What the search makes small."""
        return float(np.mean(self.errors))


class CandidateEvaluator:
    """Problems in a fixed order, and what became of each candidate on the first of them. No call is made twice."""

    def __init__(self, child: MethodProcess, problems: list[Problem]) -> None:
        self.child, self.problems = child, problems
        self.calls: dict[str, list[tuple[float, float]]] = {}

    def ask(self, candidate: str, count: int) -> Score:
        """The candidate's score on the first `count` problems."""
        done = self.calls.setdefault(candidate, [])
        if len(done) < count:
            self.child.set_up(replace(self.child.setup, method=replace(self.child.setup.method, text=candidate)))
        for problem in self.problems[len(done) : count]:
            outcome = pool_worker.solve_problems(self.child, [problem], Phase.ACCURACY, 0)[0]
            error = WORST
            if outcome.pose is not None:
                error = float(metrics.rmse(outcome.pose, problem.T_target_source, problem.evaluation_points))
            done.append((min(error, WORST), outcome.time_ms))
        errors, times = zip(*done[:count], strict=True)
        return Score(errors, float(np.mean(times)))


def run(request: TuneRequest, console: Console) -> Path:
    """Search, print what happens, and write the settings; returns the file.

    Raises:
        InputError: what is asked for can't be tuned, or not so.
    """
    space, stages, validation = search_space(request), plan(request.budget), left_to_validate(request.budget)
    candidates = draw(request, space, stages[0][0])
    learn = problems_of(request, held_out=False, count=stages[-1][1])
    held_out = problems_of(request, held_out=True, count=validation)
    child = started(request)
    try:
        console.print(f"{request.name}: {', '.join(space)} of {request.method}", highlight=False, soft_wrap=True)
        course = CandidateEvaluator(child, learn)
        best = halve(course, candidates, stages, console)
        entry = evaluate_all(request, best, course, CandidateEvaluator(child, held_out))
    finally:
        child.close()
    made = {"command": request.command, "budget": request.budget, "seed": request.seed, "candidates": len(candidates)}
    file = tuned_file(request.catalog.methods.plugins)
    save_settings(file, request.method, request.name, made | entry)
    spec = f"{request.method}[{TUNED}={request.name}]"
    values = entry["values"] or f"no values, the same as {request.method}; kept as the record of what was tried"
    console.print(f"{entry['verdict']}\n{spec} in {file}: {values}", highlight=False, soft_wrap=True)
    return file


def default_name(dataset: str, condition_text: str) -> str:
    """`modelnet40_noisy`; parameters of the two are written with `_`."""
    return re.sub(r"\W+", "_", f"{dataset}_{condition_text}").strip("_")


def search_space(request: TuneRequest) -> dict[str, tuple[Any, ...] | LogUniform]:
    """What of the method may be varied.

    Raises:
        InputError: there is no such method, it says of no parameter that it may be, can't be used here, or the name is none.
    """
    offers = request.catalog.methods.entries
    if request.method not in offers:
        raise unknown("method", request.method, offers)
    if not re.fullmatch(r"\w+", request.name):
        raise InputError(f"--name '{request.name}': letters, digits and _ only")
    offer = offers[request.method]
    space = _searched(offer)
    if not space:
        able = ", ".join(name for name, other in offers.items() if _searched(other))
        raise InputError(f"{request.method}: its class's 'search' leaves nothing to tune; methods that have it: {able}")
    if reason := offer.unavailable():
        raise InputError(f"{request.method} can't be tuned: {reason}")
    return space


def _searched(offer: MethodEntry) -> dict[str, tuple[Any, ...] | LogUniform]:
    """What a class and its bases say, less what the variant fixes; of values, those that are not the default anyway.

    Raises:
        InputError: the class says it of what is no parameter.
    """
    found: dict[str, tuple[Any, ...] | LogUniform] = {}
    for cls in reversed(offer.cls.__mro__):
        found |= vars(cls).get("search", {})
    usual = {f.name: f.default for f in dataclasses.fields(offer.cls)}  # type: ignore[arg-type]
    if strange := sorted(found.keys() - usual):
        raise unknown(f"parameter in {offer.cls.__name__}.search", strange[0], usual)
    others = {
        name: where if isinstance(where, LogUniform) else tuple(v for v in where if v != usual[name])
        for name, where in found.items()
        if name not in offer.parameters
    }
    return {name: where for name, where in others.items() if where}


def plan(budget: int) -> list[tuple[int, int]]:
    """The search's stages within its share of the budget: how many candidates, and how many problems they have been asked then.

    Raises:
        InputError: the budget is too small for any choice.
    """
    if budget < LEAST_BUDGET:
        raise InputError(f"--budget {budget}: too small to tell settings apart; the least is {LEAST_BUDGET} calls")
    stages = _stages(2)
    while cost(larger := _stages(stages[0][0] + 1)) <= SEARCH_SHARE * budget:
        stages = larger
    return stages


def _stages(candidates: int) -> list[tuple[int, int]]:
    stages = [(candidates, FIRST_PROBLEMS)]
    while stages[-1][0] > 2:
        stages.append((max(2, stages[-1][0] // 2), 2 * stages[-1][1]))
    return stages


def cost(stages: list[tuple[int, int]]) -> int:
    """Calls that stages take."""
    before = [0, *(problems for _, problems in stages)]
    return sum(n * (problems - done) for (n, problems), done in zip(stages, before, strict=False))


def left_to_validate(budget: int) -> int:
    """Held-out problems that two candidates can be asked with what the search leaves of the budget."""
    return (budget - cost(plan(budget))) // 2


def draw(request: TuneRequest, space: Mapping[str, tuple[Any, ...] | LogUniform], count: int) -> list[str]:
    """The default settings, then random ones: `count` different specs in all, or fewer if there are not so many."""
    found = {request.method: None}
    for number in range(20 * count):
        if len(found) == count:
            break
        rng = rng_of("tune", request.method, request.seed, number)
        varied = {name: _value(where, rng) for name, where in space.items() if rng.random() >= STAY}
        if varied:
            found[spec_of(request.method, varied)] = None
    return list(found)


def _value(where: tuple[Any, ...] | LogUniform, rng: np.random.Generator) -> Any:
    """A value of three digits at most, so that what is printed is what was tried."""
    if not isinstance(where, LogUniform):
        return where[rng.integers(len(where))]
    value = float(f"{np.exp(rng.uniform(np.log(where.low), np.log(where.high))):.3g}")
    return round(value) if isinstance(where.low, int) and isinstance(where.high, int) else value


def spec_of(method: str, values: Mapping[str, Any]) -> str:
    """The method with values, as for a run."""
    return f"{method}[{','.join(f'{name}={value}' for name, value in values.items())}]"


def problems_of(request: TuneRequest, held_out: bool, count: int) -> list[Problem]:
    """The first training problems, of objects that are held out in training or of all others.

    Raises:
        InputError: the data set is one of pairs, or its objects can't give the points.
    """
    whole, made = request.catalog.data.spec(request.dataset).objects(), condition(request.condition)
    if made.real:
        raise InputError(f"--condition {request.condition}: is for sets of real pairs, which have no train split")
    try:
        points = made.points_available(request.points, whole.fixed_points)
    except NotEnoughPoints as reason:
        raise InputError(f"--points {request.points} of {request.dataset}, {request.condition}: {reason}") from reason
    key = ProblemKey(request.dataset, request.condition, points, 0, request.seed, split="train")
    part = Part(whole, held_out)
    return [make_problem(part, replace(key, index=i)) for i in range(count)]


def started(request: TuneRequest) -> MethodProcess:
    """The process that the method works in, with all its settings in turn.

    Raises:
        InputError: it does not start.
    """
    domain = domain_of(request.catalog.data.spec(request.dataset).objects(), request.condition)
    setting = MethodSetup(request.catalog.methods.spec(request.method), domain, seed=request.seed)
    child = MethodProcess(setting, Limits(request.timeout, MEMORY_GB))
    ready = child.start()
    if ready.status != Status.OK:
        child.close()
        raise InputError(f"{request.method} can't be tuned: {ready.message}")
    return child


def halve(
    course: CandidateEvaluator, candidates: list[str], stages: Iterable[tuple[int, int]], console: Console
) -> str:
    """The best candidate by mean error, of equals the faster; the first one, the default, competes to the end."""
    default, ranked = candidates[0], candidates
    for number, problems in stages:
        field = ranked[:number] if default in ranked[:number] else [*ranked[: number - 1], default]
        scores = {c: course.ask(c, problems) for c in field}
        ranked = sorted(field, key=lambda c: (scores[c].mean, scores[c].time_ms))
        said = f"{len(field):4} on {problems:4} problems  default {scores[default].mean:.4f}  "
        console.print(f"{said}best {scores[ranked[0]].mean:.4f} {ranked[0]}", highlight=False, soft_wrap=True)
    return ranked[0]


def evaluate_all(
    request: TuneRequest, best: str, course: CandidateEvaluator, held_out: CandidateEvaluator
) -> dict[str, Any]:
    """What to keep: values (none if the default stays), why, and the scores of the default and of what the search found."""
    pair = request.method, best
    learnt = [course.ask(c, len(course.problems)) for c in pair]
    tested = [held_out.ask(c, len(held_out.problems)) for c in pair]
    gain = statistics.paired_difference(
        np.array(tested[1].errors), np.array(tested[0].errors), request.method, request.seed
    )
    if best == request.method:
        verdict = "the default stays: nothing drawn is better on the training problems"
    elif gain.mean < 0:
        verdict = f"better than the default on held-out objects: {tested[1].mean:.4f}, not {tested[0].mean:.4f} (p {gain.p:.2g})"
    else:
        verdict = f"the default stays: {best} is not better on held-out objects: {tested[1].mean:.4f}, not {tested[0].mean:.4f}"
    return {
        "verdict": verdict,
        "values": values_of(request.catalog.methods.spec(best)) if gain.mean < 0 else {},
        "found": best,
        "training": _scores(learnt),
        "validation": _scores(tested) | {"difference": _rounded(gain[:3]), "p": _rounded(gain[3:])[0]},
    }


def values_of(method: MethodSpec) -> dict[str, Any]:
    """Return the parameters written in a spec, as the method has them; "none" for None, which TOML lacks."""
    values = method.build().parameters
    return {name: "none" if values[name] is None else values[name] for name in specs.parse(method.text).given}


def _scores(pair: list[Score]) -> dict[str, Any]:
    """Of the default and what was found: mean of min(rmse, 1), and mean time in ms."""
    default, found = pair
    means = _rounded([default.mean, found.mean])
    times = [float(f"{one.time_ms:.3g}") for one in pair]
    return {"problems": len(default.errors), "default": means[0], "found": means[1], "ms": times}


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), 4) for value in values]


def save_settings(file: Path, method: str, name: str, entry: Mapping[str, Any]) -> None:
    """Write settings under their method and name, beside those that are in the file already."""
    found = read_tuned(file)
    found.setdefault(method, {})[name] = dict(entry)
    tables = [
        f"\n[{_key(m)}.{_key(n)}]\n" + "".join(f"{_key(k)} = {toml(v)}\n" for k, v in found[m][n].items())
        for m in sorted(found)
        for n in sorted(found[m])
    ]
    write_atomically(file, HEAD + "".join(tables))


def toml(value: Any) -> str:
    """A text, number, list or table as TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {toml(v)}" for k, v in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)
