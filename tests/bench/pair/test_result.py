"""Rows, order, verdict, page and picture of a pair's result, without running a method."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape
from matplotlib.figure import Figure
from rich.console import Console
from scipy.spatial.transform import Rotation

from bench.isolation.protocol import Limits
from bench.pair import clouds, command, figure, files, page
from bench.pair.folder import prepare
from bench.pair.freedom import Freedom, Motion
from bench.pair.grade import CONSENSUS, DOUBTFUL, NONE, Grade
from bench.pair.register import Registration
from bench.pair.result import evaluate
from bench.pair.text import significant
from bench.report.style import number
from bench.storage.outcome import Status
from common.errors import InputError
from tests.bench.pair.synthetic_pair import T, shell

WRONG = np.eye(4)
WRONG[:3, :3] = Rotation.from_rotvec((1.5, 0.4, -0.7)).as_matrix()
NEAR = T.copy()
NEAR[:3, 3] += 0.01


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    np.save(folder / "a.npy", shell())
    np.save(folder / "b.npy", shell(700) @ T[:3, :3].T + T[:3, 3])
    return clouds.open_scans((folder / "a.npy", folder / "b.npy"), 400, 1.0)


def registration(method, family, pose, device="cpu", **notes):
    status, message = (Status.OK, "") if pose is not None else (Status.CRASH, "exit code 3")
    return Registration(method, "global", family, status, 12.5, pose, message, notes, device)


@pytest.fixture(scope="module")
def result(scans):
    rows = [registration("failed", "f", None), registration("wrong", "w", WRONG), registration("near", "n", NEAR)]
    rows += [registration("exact", "e", T, device="cuda:0", inliers=7, confidence=0.5), registration("second", "n", T)]
    return evaluate(scans, rows, T)


def test_rows_have_the_fit_and_the_error_of_their_own_pose(result):
    errors = {"near": NEAR, "exact": T, "wrong": WRONG, "second": T}
    thin = result.scans.source.thin
    for k, posed in enumerate(result.posed):
        row, fit = result.row(posed), result.fits[k]
        assert (row["overlap"], row["target_overlap"]) == (fit.share, fit.target_share)
        assert (row["residual"], row["trimmed"]) == (fit.residual, fit.trimmed)
        pose = errors[posed.method]
        moved, truth = (thin @ p[:3, :3].T + p[:3, 3] for p in (pose, T))
        angle = np.degrees(Rotation.from_matrix(pose[:3, :3].T @ T[:3, :3]).magnitude())
        assert row["rre_deg"] == pytest.approx(angle, abs=1e-5)
        assert row["shift"] == pytest.approx(np.linalg.norm((moved - truth).mean(axis=0)), abs=1e-9)
        assert row["rmse"] == pytest.approx(np.sqrt(((moved - truth) ** 2).sum(axis=1).mean()), abs=1e-9)
        assert row["consensus"] == (posed.method != "wrong")
    failed = result.row(result.registrations[0])
    assert failed["rmse"] == failed["shift"] == failed["rre_deg"] == np.inf and np.isnan(failed["overlap"])
    assert (failed["status"], failed["message"], failed["consensus"]) == ("crash", "exit code 3", False)
    exact = result.row(result.registrations[3])
    assert (exact["confidence"], exact["device"], exact["time_ms"], exact["family"]) == (
        "confidence 0.5",
        "cuda:0",
        12.5,
        "e",
    )
    assert registration("x", "y", T, inliers=7).confidence == "inliers 7" and registration("x", "y", T).confidence == ""


def test_the_candidate_is_first_then_those_that_agree_then_others_then_failures(result):
    names = [row.method for row in result.ranked()]
    assert names[0] == result.candidate.method and set(names[:3]) == {"exact", "second", "near"}
    assert names[3:] == ["wrong", "failed"]
    agreeing = [result.row(row)["trimmed"] for row in result.ranked()[1:3]]
    assert agreeing == sorted(agreeing)


def regraded(result, name, *motions, probability=0.25):
    freedom = Freedom(motions, 0.1, 0.9)
    return replace(result, grade=Grade(name, probability, ("one", "two"), None, freedom))


def test_the_verdict_names_grade_overlap_probability_and_open_motions(result, scans):
    best, fit = result.candidate.method, result.fits[result.consensus.best]
    overlap = f"overlap {fit.share:.0%} of the source and {fit.target_share:.0%} of the target"
    agreed = regraded(result, CONSENSUS)
    assert agreed.verdict() == (
        "Grade: consensus. 2 independent families of methods agree (near, exact, second). "
        f"{best} fits best: {overlap}; probability that it is right: 25%."
    )
    assert agreed.best is agreed.candidate
    end = "aligned.ply is not written; poses/ has every method's pose."
    for name, advice in ((DOUBTFUL, "Check the pictures before using its pose"), (NONE, "No pose can be recommended")):
        other = regraded(result, name)
        assert other.best is None and other.verdict() == (
            f"Grade: {name}, because one and two. {best} is the best candidate ({overlap}; "
            f"probability that it is right: 25%). {advice}. {end}"
        )
    slide = regraded(result, DOUBTFUL, Motion(np.array([0.0, 0, 1]), None)).verdict()
    assert (
        "right, apart from the motions below: 25%). In the target's frame, the clouds leave open: sliding along"
        in slide
    )
    large = replace(agreed, scans=replace(scans, ratio=4.0)).verdict()
    assert f"{best} fits best: one cloud is 4.0 times as large as the other, so their overlap says little; " in large
    assert evaluate(scans, [], None).verdict() == "No method found a pose. Grade: none."


def test_what_agreement_means_is_stated_and_how_far_poses_that_agree_are_apart(result, scans):
    turned = T.copy()
    turned[:3, :3] = T[:3, :3] @ Rotation.from_rotvec((0.1, 0, 0)).as_matrix()
    rows = [registration("exact", "e", T), registration("turned", "t", turned), registration("wrong", "w", WRONG)]
    other = evaluate(scans, rows, None)
    first, *_ = other.ranked()
    angles = {row.method: other.row(row)["candidate_deg"] for row in rows}
    assert angles[first.method] == 0 and max(angles["exact"], angles["turned"]) == pytest.approx(np.degrees(0.1))
    farthest = float(other.agreement.distance[0, 1])
    limit = (
        f"Poses agree if they move the source's points to within {significant(scans.alike)} (root mean square) of where one pose "
        f"of the group moves them; a rotation alone may differ by up to {number(scans.alike_deg, 1)}°."
    )
    assert other.tolerance() == (
        f"{limit} Those that agree with {first.method} differ from it by up to 5.7° and {significant(farthest)}."
    )
    assert evaluate(scans, rows[:1], None).tolerance() == evaluate(scans, [], None).tolerance() == limit
    assert np.isnan(result.row(result.registrations[0])["candidate_deg"])


def test_the_page_shows_rows_matrix_and_pose_as_text(result):
    heads, *rows = page.table_rows(result)
    shown = ["method", "status", "ms", "overlap", "residual", "device", "error °", "error shift", "error rmse"]
    ending = ["agrees", "from first °", "reported confidence", "message"]
    assert heads == [*shown, *ending]
    for cells, ranked in zip(rows, result.ranked(), strict=True):
        row = result.row(ranked)
        expected = [row["method"], row["status"], "12.5"]
        expected += [
            "–" if np.isnan(row["overlap"]) else f"{row['overlap']:.0%}",
            significant(row["residual"]),
            row["device"],
        ]
        expected += [number(row["rre_deg"]), *(significant(row[name]) for name in ("shift", "rmse"))]
        expected += ["yes" if row["consensus"] else "", number(row["candidate_deg"])]
        assert cells == [*expected, row["confidence"], row["message"]]
    plain = evaluate(result.scans, [registration("exact", "e", T)], None)
    assert page.table_rows(plain)[0] == [*shown[:5], *ending]
    lines = page.pose_lines(result)
    assert np.array([line.split() for line in lines], dtype=float) == pytest.approx(result.candidate.pose, abs=1e-6)
    assert len({len(line) for line in lines}) == 1 and "-0.000000" not in " ".join(lines)
    assert page.pose_title(result) == f"Pose of {result.candidate.method} (T_target_source, grade {result.grade.name})"
    none = evaluate(result.scans, [registration("failed", "f", None)], None)
    assert page.pose_lines(none) == [] and page.pose_title(none) == ""
    angles, shifts = result.agreement.angle_deg, result.agreement.shift
    matrix = page._matrix(result)
    assert all(matrix[i][j] == f"{number(angles[i, j], 1)}° {significant(shifts[i, j])}" for i, j in np.ndindex(4, 4))
    text = page.render(result)
    assert all(name in text for name in ("a.npy", "b.npy", "wrong", "exit code 3", significant(result.scans.size)))
    assert str(escape(result.tolerance())) in text


def test_the_3d_view_moves_the_centred_source_by_each_pose(result):
    data, scans = page._clouds(result), result.scans
    source, target = (np.transpose(data[name]) for name in ("source", "target"))
    centre = scans.target.thin.mean(axis=0)
    shown = figure.strided(scans.source.thin, page.SHOWN)
    assert source == pytest.approx(shown - shown.mean(axis=0), abs=1e-4 * scans.size)
    assert target == pytest.approx(figure.strided(scans.target.thin, page.SHOWN) - centre, abs=1e-4 * scans.size)
    poses = {row.method: row.pose for row in result.posed}
    assert set(data["poses"]) == set(poses) and data["shown"] == result.candidate.method
    for name, pose in (*poses.items(), ("start", scans.restored(np.eye(4)))):
        rows = np.array(data["start"] if name == "start" else data["poses"][name])
        expected = shown @ pose[:3, :3].T + pose[:3, 3] - centre
        assert (shown - shown.mean(axis=0)) @ rows[:, :3].T + rows[:, 3] == pytest.approx(expected, abs=1e-9)
    assert page._round_coordinates(np.array([[1.23456789, 0, 0]]), 20.0)[0] == [1.235]


@pytest.mark.parametrize(("n", "most", "left"), [(10, 10, 10), (11, 10, 6), (30, 10, 10), (31, 10, 8), (5, 10, 5)])
def test_every_nth_point_is_shown(n, most, left):
    shown = figure.strided(np.arange(n), most)
    assert len(shown) == left and np.ptp(np.diff(shown)) == 0 and shown[0] == 0


def test_the_picture_has_a_panel_for_the_input_and_for_each_pose(result, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: drawn.append(self))
    figure.draw(regraded(result, CONSENSUS), tmp_path / "p.png")
    target = figure.strided(result.scans.target.thin, figure.SHOWN)
    axes = np.linalg.svd(target - target.mean(axis=0))[2][:2].T
    panels = [
        ("input of the methods", result.scans.restored(np.eye(4))),
        *((row.method, row.pose) for row in result.posed),
    ]
    shown = [cell for cell in drawn[0].axes if cell.collections]
    assert len(shown) == 5 and len(drawn[0].axes) == 8
    for cell, (name, pose) in zip(shown, panels, strict=True):
        grey, orange = (np.asarray(c.get_offsets()) for c in cell.collections)
        assert grey == pytest.approx((target - target.mean(axis=0)) @ axes)
        source = figure.strided(result.scans.source.thin, figure.SHOWN) @ pose[:3, :3].T + pose[:3, 3]
        assert orange == pytest.approx((source - target.mean(axis=0)) @ axes)
        head, line = cell.get_title(loc="left").split("\n")
        assert head == name + (" ★" if name == result.candidate.method else "")
        fits = [f for row, f in zip(result.posed, result.fits, strict=True) if row.method == name]
        assert line == "".join(f"overlap {f.share:.0%}, residual {significant(f.residual)}" for f in fits)
        assert cell.get_xlim()[1] == pytest.approx(1.3 * np.abs(grey).max())


def test_files_have_every_pair_of_poses_and_null_for_what_is_unknown(result):
    rows = files.agreement_rows(result)
    names = [row.method for row in result.posed]
    assert [(row["method"], row["other"]) for row in rows] == [
        (a, b) for i, a in enumerate(names) for b in names[i + 1 :]
    ]
    for row in rows:
        at = names.index(row["method"]), names.index(row["other"])
        values = result.agreement.angle_deg[at], result.agreement.shift[at], result.agreement.distance[at]
        assert (row["angle_deg"], row["shift"], row["distance"]) == values
    content, scans = json.loads(json.dumps(files.as_json(result), allow_nan=False)), result.scans
    assert [m["method"] for m in content["methods"]] == [row.method for row in result.ranked()]
    assert content["methods"][-1]["rmse"] is None and content["methods"][-1]["T_target_source"] is None
    expected = {
        "size": scans.size,
        "spacing": scans.spacing,
        "near": scans.near,
        "alike": scans.alike,
        "alike_deg": scans.alike_deg,
        "source_factor": 1.0,
    }
    assert {name: content[name] for name in expected} == expected
    assert content["candidate"] == result.candidate.method and content["verdict"] == result.verdict()
    assert (content["grade"], content["probability"]) == (result.grade.name, result.grade.probability)
    assert content["evidence"]["overlap"] == result.grade.evidence.overlap and content["kind"] == scans.kind.value


def test_the_terminal_shows_a_column_if_any_pose_has_a_value_in_it(result):
    """And none that is empty for all; the values are those of the page, the best first."""
    head, *rows = page.table_rows(result)
    posed = [row for row, of in zip(rows, result.ranked(), strict=True) if of.pose is not None]
    filled = [i for i, name in enumerate(head) if name not in ("status", "message") and any(row[i] for row in posed)]
    assert any(not all(row[i] for row in posed) for i in filled), "a column of which some cells are empty"
    out = io.StringIO()
    command.show(result, Console(file=out, width=300, markup=False))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines[0] == " ".join(head[i] for i in filled).split()
    for line, row in zip(lines[1:], posed, strict=False):
        assert line == " ".join(row[i] for i in filled).split()
    assert "no pose: failed, crash: exit code 3" in out.getvalue()
    assert out.getvalue().splitlines()[-1] == result.verdict()


def test_names_and_messages_are_no_markup(scans):
    """On a console that interprets it; tags and colours are those of Rich."""
    rows = [registration(f"m[bold]{k}", f"f{k}", T) for k in range(2)]
    rows.append(replace(registration("lost[red]", "g", None), message="[bold]why[/bold]"))
    rows.append(replace(registration("left[red]", "h", None), status=Status.SKIPPED))
    out = io.StringIO()
    command.show(evaluate(scans, rows, None), Console(file=out, width=200))
    lines = out.getvalue().splitlines()
    assert "no pose: lost[red], crash: [bold]why[/bold]" in lines
    assert any(line.startswith("not available: left[red]; ") for line in lines)
    assert any("m[bold]0" in line and "candidate" not in line for line in lines[-3:])


@pytest.mark.parametrize(("count", "has"), [(1, False), (2, True), (12, True), (13, False)])
def test_the_terminal_has_the_angles_between_two_to_twelve_poses(scans, count, has):
    turns = [Rotation.from_rotvec((0.02 * k, 0, 0)).as_matrix() for k in range(count)]
    poses = [np.block([[turn, np.zeros((3, 1))], [np.eye(4)[3:]]]) for turn in turns]
    rows = [registration(f"m{k}", f"f{k}", pose) for k, pose in enumerate(poses)]
    result, out = evaluate(scans, rows, None), io.StringIO()
    command.show(result, Console(file=out, width=200))
    lines = out.getvalue().splitlines()
    assert ("agreement: angle in degrees between every two poses" in lines) == has
    if has:
        start = lines.index("agreement: angle in degrees between every two poses")
        table = [line.split() for line in lines[start + 1 : start + 2 + count]]
        assert table[0] == [str(k + 1) for k in range(count)]
        for i, cells in enumerate(table[1:]):
            angles = [number(np.degrees(0.02 * abs(i - j)), 1) for j in range(count)]
            assert cells == [str(i + 1), f"m{i}", *angles]


def test_a_pose_of_negative_zeros_is_printed_without_signs(scans):
    turn = np.diag([-1.0, -1, 1, 1])
    result = evaluate(scans, [registration("m", "f", np.where(turn == 0, -0.0, turn))], None)
    assert [line.split() for line in page.pose_lines(result)] == [[f"{v + 0.0:.6f}" for v in row] for row in turn]


@pytest.mark.parametrize(("families", "agrees"), [(("a", "b"), True), (("a", "a"), False), (("start", "start"), False)])
def test_poses_agree_only_if_two_families_do(scans, families, agrees):
    rows = [registration(f"m{k}", family, T) for k, family in enumerate(families)]
    result = evaluate(scans, rows, None)
    assert [result.row(row)["consensus"] for row in rows] == [agrees] * 2


def test_clouds_are_shown_with_at_most_2500_and_3000_points():
    assert (page.SHOWN, figure.SHOWN) == (2500, 3000)


def test_times_and_memory_have_limits_above_zero_and_defaults():
    request = command.PairRequest(Path("a"), Path("b"))
    assert request.limits() == Limits(60, 8) and replace(request, timeout=5.0, memory_limit_gb=0.5).limits() == Limits(
        5, 0.5
    )
    for flag, changes in {
        "--timeout": {"timeout": 0},
        "--memory-limit": {"memory_limit_gb": 0},
        "--scale": {"scale": 0.0, "timeout": 1},
    }.items():
        with pytest.raises(InputError, match=f"^{flag}: must be above 0"):
            replace(request, **changes).limits()


def test_ten_points_are_enough(monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "choose_folder", stop)
    for points, error in ((9, InputError), (10, KeyboardInterrupt)):
        with pytest.raises(error):
            command.run(
                command.PairRequest(tmp_path, tmp_path, ["identity"], points=points), Console(file=io.StringIO())
            )


@pytest.mark.parametrize("factor", [1.0, 0.001])
def test_the_factor_of_the_source_is_said_beside_the_poses(result, tmp_path, monkeypatch, factor):
    monkeypatch.setattr(figure, "draw", lambda *_: None)
    scaled, out = replace(result, scans=replace(result.scans, factor=factor)), io.StringIO()
    command.write(scaled, prepare(tmp_path / "o") or tmp_path / "o", [], Console(file=out, width=200))
    said = "poses apply to the source with its coordinates multiplied by 0.001" in out.getvalue()
    assert said == (factor != 1) and all(
        name in out.getvalue() for name in ("poses.json", "picture.png", "report.html")
    )
