"""Grades of synthetic sets of poses."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from bench.pair import clouds, grade
from bench.pair.agreement import Consensus, Fit
from bench.pair.freedom import Freedom, Motion, freedom
from bench.pair.register import Registration
from bench.pair.result import evaluate
from bench.storage.outcome import Status
from common.keys import rng
from tests.bench.pair.synthetic_pair import T, shell

Q = np.eye(4)
Q[:3, :3] = Rotation.from_rotvec((1.1, 0.4, -0.7)).as_matrix()
FREE = Freedom((), 0.1, 0.95)
ORDER = [grade.NONE, grade.DOUBTFUL, grade.CONSENSUS]


def wrong(key):
    """Return a pose about which nothing agrees."""
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_rotvec(rng("wrong", key).normal(size=3)).as_matrix()
    return pose


def scans(folder, source=None, target=None):
    np.save(folder / "a.npy", shell() if source is None else source)
    np.save(folder / "b.npy", shell(700) @ T[:3, :3].T + T[:3, 3] if target is None else target)
    return clouds.open_scans((folder / "a.npy", folder / "b.npy"), 900, 1.0)


def graded(pair, poses):
    """Grade poses given as (family, pose)."""
    rows = [Registration(f"m{i}", "global", f, Status.OK, 1.0, p, "") for i, (f, p) in enumerate(poses)]
    return evaluate(pair, rows, None)


def evidence(**changes):
    model = grade.calibration()
    known = {name: f.mean for name, f in model.features.items()}
    return grade.Evidence(**(known | changes))


def test_right_poses_of_several_families_are_a_consensus_and_a_wrong_one_alone_is_not(tmp_path):
    pair = scans(tmp_path)
    right = graded(pair, [("a", T), ("b", T), ("c", T), ("d", wrong(1))])
    assert right.grade.name == grade.CONSENSUS and right.best is right.candidate and not right.grade.reasons
    assert right.grade.evidence.witnesses == 3 and right.grade.evidence.rivals == 1
    alone = graded(pair, [("a", wrong(1)), ("b", wrong(2))])
    assert alone.best is None and alone.grade.reasons and alone.grade.probability < right.grade.probability
    none = graded(pair, [])
    assert none.grade.name == grade.NONE and none.candidate is None and none.grade.probability == 0


def test_all_families_that_agree_are_stated_though_more_than_four_count_as_four(tmp_path):
    poses = [(f"family {i}", T) for i in range(6)] + [(f"other {i}", wrong(1)) for i in range(5)]
    result = graded(scans(tmp_path), poses)
    stated = result.grade.evidence
    assert (stated.witnesses, stated.rivals) == (6, 5) == (result.consensus.witnesses, 5)
    four = replace(stated, witnesses=grade.MOST_WITNESSES, rivals=grade.MOST_WITNESSES)
    assert stated.features() == four.features() and four.features()["witnesses"] == 4
    model = grade.calibration()
    assert result.grade.probability == model.probability(four) > model.probability(replace(four, witnesses=3))


@pytest.mark.parametrize("copies", [1, 5])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_copies_of_a_family_do_not_raise_the_grade(tmp_path, number, copies):
    pair = scans(tmp_path)
    poses = [(f"family {i}", T) for i in range(number)] + [("other", wrong(1))]
    before, after = graded(pair, poses), graded(pair, poses + copies * [("family 0", T)])
    assert after.grade.name == before.grade.name
    assert after.grade.probability == pytest.approx(before.grade.probability, abs=1e-9)


def test_local_methods_are_no_second_witness(tmp_path):
    pair = scans(tmp_path)
    result = graded(pair, [("a", T), ("start", T), ("start", T)])
    assert result.grade.evidence.witnesses == 1 and result.grade.name != grade.CONSENSUS
    assert "fewer than two independent families of methods agree" in result.grade.reasons


@pytest.mark.parametrize("number", [1, 3])
def test_the_grade_does_not_depend_on_the_frames(tmp_path, number):
    poses = [(f"family {i}", T) for i in range(number)] + [("other", wrong(1))]
    before = graded(scans(tmp_path), poses)
    source, target = (np.load(tmp_path / f"{n}.npy") @ Q[:3, :3].T for n in "ab")
    turned = [(f, Q @ p @ np.linalg.inv(Q)) for f, p in poses]
    after = graded(scans(tmp_path, source, target), turned)
    assert after.grade.name == before.grade.name
    assert after.grade.probability == pytest.approx(before.grade.probability, abs=1e-3)


def test_open_motions_and_single_witnesses_prevent_a_consensus():
    model = replace(grade.calibration(), consensus=0.0, none=0.0)
    assert grade.judge(evidence(witnesses=2), FREE, model).name == grade.CONSENSUS
    assert grade.judge(evidence(witnesses=1), FREE, model).name == grade.DOUBTFUL
    open_pair = Freedom((Motion(np.eye(3)[0], None),), 0.0, 0.95)
    result = grade.judge(evidence(witnesses=4), open_pair, model)
    assert result.name == grade.DOUBTFUL and result.reasons == ("the clouds do not determine the pose",)


def test_the_probability_decides_between_the_grades():
    model = grade.calibration()
    odds = {name: f.weight for name, f in model.features.items()}
    shifted = [replace(model, intercept=i) for i in (-30.0, 0.0, 30.0)]
    names = [grade.judge(evidence(witnesses=3), FREE, m).name for m in shifted]
    assert names == ORDER and odds
    assert shifted[1].probability(evidence()) == pytest.approx(0.5)


def test_more_witnesses_make_a_pose_more_probable_and_rivals_less():
    model = grade.calibration()
    probability = [model.probability(evidence(witnesses=w)) for w in (1, 2, 3, 4)]
    assert probability == sorted(probability) and probability[0] < probability[-1]
    against = {"rivals", "residual"}
    assert all(f.weight <= 0 if name in against else f.weight >= 0 for name, f in model.features.items())
    assert model.probability(evidence(residual=2.0)) < model.probability(evidence(residual=0.5))


def test_a_turned_pose_of_an_asymmetric_cloud_gains_no_overlap():
    source = shell()
    right = grade.chance(np.eye(4), source, source, 0.2)
    half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    assert right > 0.1 and grade.chance(half_turn, source, source, 0.2) < 0


def test_chance_is_the_overlap_gained_over_the_turns_of_a_cube():
    draw = rng("chance")
    target = np.abs(draw.normal(size=(300, 3))) * (3, 2, 1)
    source = (np.abs(draw.normal(size=(2500, 3))) * (3, 2, 1)) @ Q[:3, :3]
    pose, near = Q, 0.4
    used = source[::3] @ pose[:3, :3].T  # at most 1000, evenly
    axes = np.linalg.eigh(np.cov(target.T))[1][:, ::-1].T
    axes[2] *= np.linalg.det(axes)
    centre = used.mean(axis=0)
    shares = []
    for turn in Rotation.create_group("O").as_matrix():
        turned = (used - centre) @ (axes.T @ turn @ axes).T + centre
        share = (cdist(turned, target).min(axis=1) < near).mean()
        shares.append((np.allclose(turn, np.eye(3)), share))
    (own,), others = ([s for same, s in shares if same == which] for which in (True, False))
    assert len(others) == 23 and own - max(others) > 0.05
    assert grade.chance(pose, source, target, near) == pytest.approx(own - max(others), abs=2e-3)


def test_the_evidence_is_that_of_the_best_pose_of_the_group(tmp_path):
    pair = scans(tmp_path)
    poses = np.array([T, wrong(1), wrong(2)])
    fits = [Fit(0.9, 0.7, 0.1, 0.6 * pair.spacing), Fit(0.5, 0.3, 0.1, 9.0 * pair.spacing), Fit(0.1, 0.1, 0.1, 0.1)]
    for best, group, other, counts in (
        (0, Consensus((0,), 9, 0), Consensus((1, 2), 2, 1), (9, 2)),
        (1, Consensus((1,), 3, 1), None, (3, 0)),
        (0, Consensus((0,), 1, 0), Consensus((1,), 7, 1), (1, 7)),
    ):
        found, free = grade.gather(pair, poses, fits, group, other)
        expected = freedom(poses[best], pair.source.thin, pair.target.thin, pair.near)
        assert (found.witnesses, found.rivals) == counts
        assert found.overlap == pytest.approx((0.8, 0.4)[best]) and found.residual == pytest.approx((0.6, 4.0)[best])
        assert found.chance == grade.chance(poses[best], pair.source.thin, pair.target.thin, pair.near)
        normals, stiffness = expected.normals, expected.stiffness
        assert found.normals == (0.5 if np.isnan(normals) else normals)
        known = 0.001 if np.isnan(stiffness) else max(stiffness, 0.001)
        assert found.stiffness == pytest.approx(np.log10(known)) and str(free.motions) == str(expected.motions)


def test_the_probability_is_the_logistic_function_of_the_scaled_features():
    model = grade.calibration()
    draw = rng("logistic")
    values = {name: f.mean + f.scale * draw.normal() for name, f in model.features.items()}
    odds = model.intercept + sum(f.weight * (values[name] - f.mean) / f.scale for name, f in model.features.items())
    assert model.probability(grade.Evidence(**values)) == pytest.approx(1 / (1 + np.exp(-odds)))
    for intercept, limit in ((1e4, 30), (-1e4, -30)):
        extreme = replace(model, intercept=intercept).probability(evidence())
        assert extreme == pytest.approx(1 / (1 + np.exp(-limit)), rel=1e-12)


def test_a_grade_holds_from_its_probability_on():
    level = evidence(witnesses=2)
    model = replace(grade.calibration(), intercept=0.0, none=0.0)
    p = model.probability(level)
    bounds = [(p, 0.0), (np.nextafter(p, 1), 0.0), (1.0, p), (1.0, np.nextafter(p, 1))]
    results = [grade.judge(level, FREE, replace(model, consensus=c, none=n)) for c, n in bounds]
    assert [r.name for r in results] == [grade.CONSENSUS, grade.DOUBTFUL, grade.DOUBTFUL, grade.NONE]
    assert all(r.probability == p and r.evidence is level and r.freedom is FREE for r in results)
    assert [len(r.reasons) for r in results] == [0, 1, 1, 1]
