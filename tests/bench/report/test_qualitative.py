"""The grid of aligned clouds: which problems, and what each panel shows."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.planning.catalog import Catalog
from bench.report import qualitative, style
from bench.report.gaussians import MixtureRow, _draw_mixtures, _mixture_row
from bench.report.qualitative import LARGEST, SHOWN, GridRow, Panel, choose, draw_grid, grids_of, project, row_of
from bench.report.recommendation import Recommendation
from bench.report.replay import ProblemReplay, poses_of, subsample, upright
from datasets.problems import ProblemKey, make_problem
from methods.base import Gaussians
from tests.bench.report.layout import assert_texts_fit
from tests.bench.report.real_run import real_run
from tests.catalog import open_data

CRITERION = CONVENTIONS["deepgmr"]
GROUP = ("shapes40", "noisy", 128)


def test_problems_on_which_methods_disagree_are_chosen_one_of_each_category_first():
    draw = np.random.default_rng(1)
    rows = [
        {"method": m, "problem": f"p{i}", "category": f"c{i % 3}", "rmse": draw.choice([draw.random(), 5.0, np.inf])}
        for i in range(9)
        for m in "abc"
    ]
    trials = pd.DataFrame(rows)
    scatter = {p: np.minimum(part["rmse"], 2).std(ddof=0) for p, part in trials.groupby("problem")}
    ranked = sorted(scatter, key=lambda p: -scatter[p])
    turns = {p: sum(int(q[1:]) % 3 == int(p[1:]) % 3 for q in ranked[: ranked.index(p)]) for p in ranked}
    expected = sorted(ranked, key=lambda p: turns[p])
    for most in (2, 5, 20):
        assert choose(trials, CRITERION, most) == expected[:most]
    assert choose(trials.head(0), CRITERION, 3) == []


def test_the_projection_is_orthogonal_and_keeps_up_upwards():
    axes = project(np.eye(3))
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(axes[1], [0, np.cos(np.radians(20))], atol=1e-12)
    assert axes[0, 0] > 0.8 and axes[2, 0] == pytest.approx(-0.5) and axes[2, 1] < 0, "from the right and above"


def test_panels_show_the_input_and_the_source_under_each_stored_pose(tmp_path):
    run = real_run("noisy")
    trials, replay = aggregate.add_success(run, CRITERION), ProblemReplay(run, Catalog.of(tmp_path))
    name = run.problems["problem"][2]
    here = trials[trials["problem"] == name]
    title, panels, aligned = row_of(run, here, ["turned", "absent", "exact"], CRITERION, replay)
    problem = make_problem(open_data("shapes40"), replay.key(name))
    assert title == f"{problem.tags['category']}\n{name.rsplit('/', 1)[-1]}" and len(panels) == 4
    up = upright(problem)

    def seen(cloud, T):
        motion = up @ T
        return subsample(cloud, SHOWN) @ motion[:3, :3].T + motion[:3, 3]

    poses = dict(zip(here["method"].astype(str), poses_of(run, here), strict=True))
    errors = dict(zip(here["method"].astype(str), here["rmse"], strict=True))
    np.testing.assert_allclose(panels[0].source, seen(problem.source, np.eye(4)), atol=1e-6)
    assert panels[0].text == "" and panels[2].source is None and panels[2].text == "not run"
    for panel, method in ((panels[1], "turned"), (panels[3], "exact")):
        np.testing.assert_allclose(panel.source, seen(problem.source, poses[method]), atol=1e-6)
        assert panel.text == style.number(errors[method])
    np.testing.assert_allclose(aligned, seen(problem.source, problem.T_target_source), atol=1e-6)
    for panel in panels:
        np.testing.assert_allclose(panel.target, seen(problem.target, np.eye(4)), atol=1e-6)
    failed = here.assign(status="timeout", rmse=np.inf)
    assert [(p.source, p.text) for p in row_of(run, failed, ["exact"], CRITERION, replay).panels[1:]] == [(None, "×")]


def test_a_grid_draws_the_clouds_of_its_panels_around_the_target():
    draw = np.random.default_rng(0)
    target, source = draw.normal(size=(30, 3)) + 9, draw.normal((15, 9, 9), 1, size=(20, 3))
    panels = [Panel(source, target, ""), Panel(source - 1, target, "0.10"), Panel(None, target, "×")]
    with matplotlib.rc_context(style.RC):
        rows = [GridRow("chair\n7", panels, target[:9]), GridRow("lamp\n8", panels, target[:9] + 2)]
        figure = draw_grid(rows, ["a", "a_long_name_with_parts"], "where", "note")
    middle = target.mean(axis=0)
    assert len(figure.axes) == 6 and figure._suptitle.get_text() == "Aligned clouds\nwhere"
    assert figure._supxlabel.get_text() == "note"
    assert [axes.get_title() for axes in figure.axes[:2]] == ["input", "a"]
    assert figure.axes[0].get_ylabel() == "chair\n7" and figure.axes[3].get_ylabel() == "lamp\n8"
    radius = 1.25 * np.abs(project(target - middle)).max()
    shifted = 1.05 * np.abs(project(target[:9] + 2 - middle)).max()
    reaches = [radius] * 3 + [shifted] * 3
    assert shifted > radius
    whole = 1.05 * np.abs(project(np.concatenate([source, target]) - middle)).max()
    for axes, panel, reach in zip(figure.axes, panels * 2, reaches, strict=True):
        shown = [np.asarray(c.get_offsets()) for c in axes.collections if isinstance(c, PathCollection)]
        clouds = [panel.target] if panel.source is None else [panel.target, panel.source]
        colours = [matplotlib.colors.to_hex(c.get_facecolor()[0]) for c in axes.collections]
        assert colours == [c.lower() for c in (style.TARGET, style.SOURCE)][: len(clouds)]
        for ours, cloud in zip(shown, clouds, strict=True):
            np.testing.assert_allclose(ours, project(cloud - middle))
        assert axes.get_xlabel() == panel.text
        limit = max(whole, reach) if panel.text == "" else reach
        assert axes.get_xlim() == axes.get_ylim() == pytest.approx((-limit, limit))


@pytest.mark.parametrize("width", style.WIDTHS)
@pytest.mark.parametrize("methods", [4, 8, 12])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_labels_of_a_grid_fit_in_the_figure(width, methods, count):
    draw = np.random.default_rng(0)
    names = [f"{name}_{i}"[: 6 + 3 * i] for i, name in enumerate(["ransac10k[iterations=300000]+icp"] * methods)]
    target, source = draw.normal(size=(30, 3)), draw.normal(size=(20, 3))
    panels = [Panel(source, target, text) for text in ["", "0.123", *["2.123"] * (methods - 1)]]
    rows = [GridRow(f"7-scenes-redkitchen\n0001{i}", panels, source) for i in range(count)]
    with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=style.WIDTHS[width])):
        figure = draw_grid(rows, names, "fragments[path=3dmatch/7-scenes-redkitchen,min_overlap=0.3] · real", "a note")
        assert_texts_fit(figure, "grid")
    turned = width == "column" and 1 < count < 1 + methods
    assert [axes.get_xlabel() for axes in figure.axes[:2]] == ["", "" if turned else "0.123"]
    left = [axes.get_ylabel().split("\n")[0] for axes in figure.axes if axes.get_ylabel()]
    assert len(left) == (1 + methods if turned else count) and ("input" in left) == turned
    used = figure.axes[: count * (1 + methods)]
    assert not any(axes.axison for axes in figure.axes[len(used) :]), "cells without a panel are empty"
    across = {round(axes.get_subplotspec().get_position(figure).x0, 3) for axes in used}
    side = min((figure.get_figwidth() - 0.4) / len(across), LARGEST if turned else 99)
    assert all(axes.bbox.height / figure.dpi > 0.6 * side for axes in used), "labels took the room of panels"
    assert figure.get_figheight() < 10 or methods == 12


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("short", "short"),
        ("fgr+icp_long", "fgr+icp\n_long"),
        ("abcdefghijkl", "abcdefgh\nijkl"),
        ("abcde_gh_j", "abcde_gh\n_j"),
        ("a+b_c[defghi]", "a+b_c\n[defghi]"),
        ("abcde_gh_j\n00012", "abcd…h_j\n00012"),
    ],
)
def test_long_heads_are_broken_at_a_separator(name, expected):
    assert qualitative._in_two_lines(name, 8).replace("\\", "") == expected


def test_the_grid_of_a_group_has_its_methods_its_licence_and_its_errors(tmp_path):
    run = real_run("noisy")
    trials = aggregate.add_success(run, CRITERION)
    frames = {"trials": trials, "summary": aggregate.summary(trials, CRITERION)}
    advice = {GROUP: Recommendation(None, {}, {}, alone=False)}
    (job,) = grids_of(run, frames, [GROUP], advice, CRITERION, ProblemReplay(run, Catalog.of(tmp_path)), tmp_path)
    shown, names, where, note = job.arguments
    assert (job.kind, job.stem.name, note) == ("grid", "grid_shapes40_noisy_128", "")
    assert where == "shapes40 · noisy · 128 points" and job.caption.endswith(f"Data: {open_data('shapes40').licence}.")
    expected = choose(trials, CRITERION, 5)
    assert [row.name.split("\n")[1] for row in shown] == [p.rsplit("/", 1)[1] for p in expected] and len(expected) == 4
    first = dict(zip(names, (p.text for p in shown[0].panels[1:]), strict=True))
    assert job.alt.startswith(f"Errors by problem: {shown[0].short_name}: ")
    assert all(f"{method} {text}" in job.alt for method, text in first.items())


def test_a_grid_says_how_many_methods_it_leaves_out(tmp_path, monkeypatch):
    """Of those that were run, without controls; nothing if it shows all. A group without clouds has no grid."""
    run = real_run("noisy")
    trials, replay = aggregate.add_success(run, CRITERION), ProblemReplay(run, Catalog.of(tmp_path))
    rows = [("exact", "global", 4), ("turned", "global", 4), ("truth", "control", 4), ("absent", "global", 0)]
    records = [dict(zip(("method", "kind", "problems"), row, strict=True)) for row in rows]
    monkeypatch.setattr(qualitative, "group_records", lambda *_: records)
    for names, note in ((["exact"], "1 of 2 methods shown: the best of each kind."), (["exact", "turned"], "")):
        monkeypatch.setattr(qualitative, "best_of_each_kind", lambda rows, advice, names=names: names)
        given = run, {"trials": trials, "summary": None}, [GROUP], {GROUP: None}, CRITERION, replay, tmp_path
        (job,) = grids_of(*given)
        assert job.arguments[1:] == (names, "shapes40 · noisy · 128 points", note)
    monkeypatch.setattr(ProblemReplay, "problem", lambda *_: None)
    assert list(grids_of(*given)) == []


def test_mixtures_are_moved_with_their_clouds_to_the_upright_frame(tmp_path):
    """The source's by the true pose, too; radii, weights and shares stay."""
    problem = make_problem(open_data("shapes40"), ProblemKey("shapes40", "noisy", 64, 1))
    draw = np.random.default_rng(0)
    mixtures = [Gaussians(*(draw.random(shape) for shape in ((64, 4), 4, (4, 3), 4))) for _ in range(2)]
    row = _mixture_row("shapes40/noisy/64/00001", problem, tuple(mixtures))
    up = upright(problem)
    for k, T in enumerate((up @ problem.T_target_source, up)):
        R, t = T[:3, :3], T[:3, 3]
        cloud = (problem.source, problem.target)[k].astype(np.float64)
        np.testing.assert_allclose(row.clouds[k], cloud @ R.T + t, atol=1e-12)
        np.testing.assert_allclose(row.mixtures[k].means, mixtures[k].means @ R.T + t, atol=1e-12)
        for name in ("shares", "weights", "radii"):
            assert getattr(row.mixtures[k], name) is getattr(mixtures[k], name)
    assert row.name == f"{problem.tags['category']}\n00001"


def _mixture(weights, draw):
    """A mixture of 14 Gaussians of a cloud of 25 points."""
    return Gaussians(draw.dirichlet(np.ones(14), 25), weights, draw.normal(size=(14, 3)), draw.uniform(0.1, 0.3, 14))


@pytest.mark.parametrize("width", style.WIDTHS)
def test_labels_of_mixtures_fit_in_the_figure(width):
    draw = np.random.default_rng(3)
    mixtures = _mixture(draw.dirichlet(np.ones(14)), draw), _mixture(draw.dirichlet(np.ones(14)), draw)
    names = ("xbox\n00012", "a_category_of_a_plugin_with_a_long_name\n00013", "7-scenes-redkitchen\n00014")
    rows = [MixtureRow(name, tuple(draw.normal(size=(2, 25, 3))), mixtures) for name in names]
    with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=style.WIDTHS[width])):
        assert_texts_fit(_draw_mixtures(rows, "deepgmr[weights=a_file_with_a_long_name.safetensors]"), "gaussians")


def test_gaussians_are_circles_at_their_means_coloured_alike_in_both_clouds():
    draw = np.random.default_rng(3)
    clouds = draw.normal(size=(2, 25, 3)) + 4
    weights = draw.dirichlet(np.ones(14), 2)
    mixtures = _mixture(weights[0], draw), _mixture(weights[1], draw)
    with matplotlib.rc_context(style.RC):
        figure = _draw_mixtures([MixtureRow("chair\n7", (clouds[0], clouds[1]), mixtures)], "m")
    middle, colours = clouds[1].mean(axis=0), matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, 14))
    heaviest = np.argsort(-weights.sum(axis=0))[:12]
    reach = 1.1 * np.abs(project(np.concatenate(clouds) - middle)).max()
    assert [axes.get_title() for axes in figure.axes] == [
        "source",
        "target",
        "source's Gaussians",
        "target's Gaussians",
    ]
    for number, (cloud, one) in enumerate(zip(clouds, mixtures, strict=True)):
        (points,) = figure.axes[number].collections
        np.testing.assert_allclose(points.get_offsets(), project(cloud - middle))
        np.testing.assert_allclose(points.get_facecolor(), colours[one.shares.argmax(axis=1)])
        axes = figure.axes[2 + number]
        np.testing.assert_allclose(axes.collections[0].get_offsets(), project(cloud - middle))
        flat = project(one.means - middle)
        for j, circle, dot in zip(heaviest, axes.patches, axes.lines, strict=True):
            assert circle.center == pytest.approx(flat[j]) and circle.radius == pytest.approx(one.radii[j])
            assert np.ravel(dot.get_data()) == pytest.approx(flat[j])
            np.testing.assert_allclose(circle.get_edgecolor(), colours[j])
            assert circle.get_linewidth() == pytest.approx(0.5 + 1.5 * one.weights[j] / one.weights.max())
        assert axes.get_xlim() == pytest.approx((-reach, reach))
