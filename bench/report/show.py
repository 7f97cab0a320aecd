"""One problem of a run with the answers of its methods: a page with 3D views, and the picture of `qualitative`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.evaluation import aggregate
from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.report import style
from bench.report.embed import script_json
from bench.report.failure_cases import describe_pair, encode_clouds
from bench.report.jobs import FigureJob
from bench.report.qualitative import MARKS, draw_grid, row_of
from bench.report.ranking import GROUP_KEY_COLUMNS, errors_of, select_group
from bench.report.recommendation import recommend
from bench.report.replay import ProblemReplay, poses_of
from bench.report.selection import best_of_each_kind
from bench.report.tables import group_records
from common.errors import InputError, unknown
from common.files import make_folder, write_atomically

if TYPE_CHECKING:
    import pandas as pd


def write_view(
    loaded: RunData, replay: ProblemReplay, name: str, methods: Sequence[str], criterion: Convention, folder: Path
) -> list[Path]:
    """Write page and picture of a problem to a folder and return the files, the page first.

    Args:
        loaded: content of the results database.
        replay: regenerates the problem.
        name: id of the problem.
        methods: methods to show; empty for all on the page and the best of each kind in the picture.
        criterion: convention of the error.
        folder: folder to write to; created if missing.

    Raises:
        InputError: the run has no such problem or method, or the clouds are unavailable.
    """
    trials = aggregate.add_success(loaded, criterion, aggregate.trials(loaded))
    here = trials[(trials["problem"] == name) & (trials["status"] != "skipped")]
    if here.empty:
        known = str(trials["problem"].astype(str).min())
        raise InputError(f"{name}: not a problem of this run; its trials.csv lists them, such as {known}")
    run = sorted(set(map(str, here["method"])))
    for method in methods:
        if method not in run:
            raise unknown("method", method, run)
    here = here[here["repeat"] == here["repeat"].min()]
    here = here[here["method"].isin(methods)] if methods else here[here["kind"] != "control"]
    names = list(methods) or _selected(loaded, trials, here, criterion)
    row = row_of(loaded, here, names, criterion, replay)
    if row is None:
        reason = replay.missing.get(replay.key(name).dataset, "its clouds cannot be generated")
        raise InputError(f"{name}: {reason}")
    make_folder(folder)
    stem, drawn = folder / style.slug(name), ([row], names, name, "")
    job = FigureJob(draw_grid, drawn, "grid", f"Aligned clouds · {name}", MARKS, stem)
    with style.drawing(style.Drawing(tuple(run))):
        picture = job.draw(style.Drawing(tuple(run)))
    page = write_atomically(stem.with_name(f"{stem.name}.html"), _page(loaded, here, name, criterion, replay))
    return [page, *picture.files]


def _selected(loaded: RunData, trials: pd.DataFrame, here: pd.DataFrame, criterion: Convention) -> list[str]:
    """Return the best methods of each kind of the problem's group that were run on the problem."""
    group = tuple(here.iloc[0][list(GROUP_KEY_COLUMNS)])
    own = select_group(trials, group)
    summary = aggregate.summary(own.assign(**aggregate.FROM_CLOUDS), criterion)
    rows = group_records(summary, group)
    advice = recommend(rows, errors_of(own, criterion), aggregate.tables(loaded, criterion, trials)["timing"])
    run = set(map(str, here["method"]))
    return [m for m in best_of_each_kind(rows, advice) if m in run]


def _page(loaded: RunData, here: pd.DataFrame, name: str, criterion: Convention, replay: ProblemReplay) -> str:
    """Render the page: the methods from the smallest error to the largest, then those without an answer."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    problem = replay.problem(name)
    assert problem is not None
    ordered = here.sort_values([criterion.metric, "method"], kind="stable")
    pairs, answers = [], []
    for row, pose in zip(ordered.to_dict("records"), poses_of(loaded, ordered), strict=True):
        method = str(row["method"])
        if np.isfinite(pose).all():
            pair = describe_pair(row, pose, criterion, replay)
            pairs.append({"name": method, "pairs": [pair]})
            answers.append((method, pair["error"]))
        else:
            answers.append((method, str(row["status"])))
    data = {"methods": pairs, "clouds": {name: encode_clouds(problem)}}
    texts = {n: (files("bench.report") / n).read_text(encoding="utf-8") for n in ("show.html", "page.css", "viewer.js")}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(texts["show.html"]).render(
        problem=name,
        answers=answers,
        licence=replay.licence(replay.key(name).dataset),
        data=script_json(data),
        css=Markup(texts["page.css"]),
        js=Markup(texts["viewer.js"]),
    )
