"""Conformance checks: each detects its fault and names the fix."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bench.conformance import checks, server
from bench.conformance.checks import CHECKS, CheckFailed, CheckRequest
from methods.base import Method, NoSolution, rigid
from methods.core.chain import Chain
from tests.bench.command_line import PLUGINS
from tests.bench.conformance.faulty_methods import EXPECTED
from tests.catalog import build


@pytest.mark.parametrize("how", EXPECTED)
def test_each_fault_is_detected_by_its_check_with_a_fix(faulty, how):
    check, says = EXPECTED[how]
    with pytest.raises(CheckFailed, match=re.escape(says)):
        CHECKS[check](build(f"faulty_{how}", faulty))


@pytest.mark.parametrize("check", CHECKS)
def test_method_without_fault_passes(faulty, check):
    CHECKS[check](build("faulty_fine", faulty))


def test_check_of_batches_detects_faults():
    assert "3 pairs at once" in checks.batches(build("together", PLUGINS))
    assert checks.batches(build("good", PLUGINS)) == "not supported"
    for name, says in {
        "together_few": "2 results for 3 pairs",
        "together_raise": "broke",
        "together_spoilt": "another",
    }.items():
        with pytest.raises(checks.CheckFailed, match=says):
            checks.batches(build(name, PLUGINS))


def test_clouds_of_the_checks_have_the_shape_that_they_are_named_after():
    """The ellipsoid with semi-axes 1, 0.7 and 0.5 has a horn and two dents, and nothing else that turns it into itself."""
    cloud = checks.asymmetric_cloud(20_000) / (1.0, 0.7, 0.5)
    radius = np.linalg.norm(cloud, axis=1)
    unit = cloud / radius[:, None]
    for axis, height in (((1.0, 0.2, 0.1), 0.35), ((-0.2, 0.9, 0.4), -0.3), ((0.1, -0.3, 0.95), -0.25)):
        near = unit @ axis > 0.999 * np.linalg.norm(axis)
        assert near.sum() > 3 and np.abs(radius[near] - (1 + height)).max() < 0.02, axis
    assert np.median(np.abs(radius - 1)) < 0.02
    assert (radius.min(), radius.max()) == (pytest.approx(0.7, abs=0.01), pytest.approx(1.35, abs=0.01))
    blob = checks.random_cloud(20_000)
    np.testing.assert_allclose(blob.std(axis=0), (0.5, 0.3, 0.1), rtol=0.03)
    np.testing.assert_allclose(blob.mean(axis=0), 0, atol=0.02)
    for make in (checks.asymmetric_cloud, checks.random_cloud):
        assert not np.array_equal(make(50, 0), make(50, 1)) and np.array_equal(make(50, 1), make(50, 1))


def test_degenerate_clouds_are_what_their_names_say():
    clouds = checks.DEGENERATE_CLOUDS
    sizes = {"empty": 0, "one point": 1, "two points": 2, "few points": 5, "collinear": 100, "all equal": 100}
    assert {name: clouds[name].shape for name in clouds} == {name: (sizes.get(name, 200), 3) for name in clouds}
    ranks = {name: np.linalg.matrix_rank(clouds[name] - clouds[name].mean(0), tol=1e-9) for name in list(clouds)[4:8]}
    assert ranks == {"collinear": 1, "all equal": 0, "planar": 2, "duplicates": 3}
    assert {len(np.unique(clouds[name], axis=0)) for name in ("collinear", "planar")} == {100, 200}
    assert len(np.unique(clouds["duplicates"], axis=0)) == 40
    assert np.isnan(clouds["one nan"]).sum() == np.isinf(clouds["infinite"]).sum() == 1
    sizes = {name: np.abs(clouds[name]).max() for name in ("huge", "tiny")}
    assert sizes["huge"] > 1e6 and 1e-7 < sizes["tiny"] < 1e-5 and clouds["far away"].min() > 0.99e6


@pytest.mark.parametrize("key", range(3))
def test_the_easy_pair_has_the_angle_and_shift_of_its_pose_and_another_order(key):
    source, target, T = checks.easy_pair(100, key)
    assert source.dtype == target.dtype == np.float32 and source.shape == target.shape == (100, 3)
    angle = np.degrees(np.arccos((np.trace(T[:3, :3]) - 1) / 2))
    assert (angle, np.linalg.norm(T[:3, 3])) == (pytest.approx(10), pytest.approx(0.15))
    apart = cdist(source @ T[:3, :3].T + T[:3, 3], target)
    assert apart.min(axis=1).max() < 1e-5 and np.trace(apart < 1e-5) < 20
    assert checks.error(T, T, source) == 0 and checks.error(None, T, source) == np.inf
    moved = source @ T[:3, :3].T + T[:3, 3]
    assert checks.error(np.eye(4), T, source) == pytest.approx(np.sqrt(((moved - source) ** 2).sum(axis=1).mean()))


def outcome_of(check, method):
    """The remark of a check, or what is wrong."""
    try:
        return check(method)
    except CheckFailed as failure:
        return f"wrong: {failure}"


@pytest.mark.parametrize("in_order", [0.0, 0.019, 0.021, 1.0])
@pytest.mark.parametrize("shuffled", [0.0, 0.19, 0.21, 3.0])
def test_only_a_good_pose_that_becomes_bad_by_another_order_is_a_fault(monkeypatch, in_order, shuffled):
    errors = [in_order, shuffled]
    monkeypatch.setattr(checks, "call_method", lambda *_: (None, None))
    monkeypatch.setattr(checks, "error", lambda *_: errors.pop(0))
    found = outcome_of(checks.point_order, build("pca")).startswith("wrong: ")
    assert found == (in_order < 0.02 and shuffled > 0.2)


@pytest.mark.parametrize(
    ("typical", "inverse", "says"), [(0.9, 0, "error"), (1, 0.69, "return its inverse"), (1, 0.71, "no better")]
)
def test_a_known_pose_is_better_than_the_identity_or_the_inverse_is_suggested(monkeypatch, typical, inverse, says):
    errors = [typical, 1.0, inverse] * checks.KNOWN_POSES
    monkeypatch.setattr(checks, "error", lambda *_: errors.pop(0))
    text = outcome_of(checks.known_poses, build("pca"))
    assert says in text and text.startswith("wrong: ") == (typical >= 1)
    assert errors == []


@pytest.mark.parametrize(
    ("seconds", "mb", "says"),
    [
        (19.9, 3990, "19900 ms and 3990 MB"),
        (21, 1, "21 s for 2000 points, over 20 s"),
        (1, 4100, "4100 MB for 2000"),
        (1, -5, "and 0 MB"),
    ],
)
def test_limits_of_time_and_memory(monkeypatch, seconds, mb, says):
    clouds = []

    def call(method, *pair):
        clouds.extend(map(len, pair))
        return None, SimpleNamespace(time_ms=1e3 * seconds, peak_mb=mb)

    monkeypatch.setattr(checks, "call_method", call)
    text = outcome_of(checks.bounded, build("pca"))
    assert says in text and text.startswith("wrong: ") == (seconds > 20 or mb > 4000) and clouds == [2000, 2000]


@pytest.mark.parametrize(
    ("stages", "says"), [({}, "none"), ({"a": 50.0, "b": 52.0}, "a, b: 102%"), ({"a": 103.5}, "one lies inside")]
)
def test_stages_take_no_longer_than_the_call(monkeypatch, stages, says):
    monkeypatch.setattr(checks, "call_method", lambda *_: (None, SimpleNamespace(time_ms=100.0, stages=stages)))
    assert says in outcome_of(checks.stages_add_up, build("pca"))


def test_of_a_chain_the_last_part_refines_and_every_part_is_documented():
    assert "becomes" in checks.initial_pose(build("pca+icp")) and checks.documented(build("pca+icp")) == "global"
    assert checks.initial_pose(build("pca")) == "not supported"
    worse = build("icp")
    object.__setattr__(worse, "register", lambda source, target, init: np.diag([-1.0, -1, 1, 1]))
    assert "the error rises" in outcome_of(checks.initial_pose, worse)


class Stub(Method):
    """Answer by a function of the two clouds and the method, which also sees what the harness sets."""

    answer: object = None
    batched = True

    def register(self, source, target):
        return self.answer(self, source, target)


def stub(answer, **properties):
    """A method that answers by a function; `properties` are attributes of the class."""
    return type("Own", (Stub,), {"__doc__": "A stub."} | properties)(answer=answer)


def aligned(source, target):
    """The pose of clouds with the same points in any order, by their centroids and third moments along principal axes."""
    frames = []
    for cloud in (np.asarray(c, dtype=np.float64) for c in (source, target)):
        axes = np.linalg.svd((cloud - cloud.mean(0)).T @ (cloud - cloud.mean(0)))[0]
        axes = axes * np.where((((cloud - cloud.mean(0)) @ axes) ** 3).sum(0) < 0, -1, 1)
        axes[:, 2] *= np.linalg.det(axes)
        frames.append((cloud.mean(0), axes))
    (a, u), (b, v) = frames
    return rigid(v @ u.T, b - v @ u.T @ a)


@pytest.mark.parametrize("what", [checks.PLAIN, "other clouds"])
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (NoSolution(""), "NoSolution has no text; raise NoSolution with the reason"),
        (NoSolution("too flat"), None),
        (RuntimeError("broke"), "RuntimeError: broke; fix it, or raise NoSolution with the reason"),
        (np.eye(4), None),
        (np.eye(3), "the pose has shape (3, 3), not (4, 4): a rotation? return rigid(R, t)"),
        (np.diag([1, 1, 1, 2.0]), "its last row is 0 0 0 2, not 0 0 0 1; return T_target_source (4, 4), such as "),
        (rigid(np.eye(3), np.full(3, 3e6)), "the translation 3e+06 is over 1e+06 times the largest coordinate 1;"),
    ],
)
def test_a_call_returns_a_pose_or_a_reason_and_what_is_wrong_is_named(answer, says, what):
    """What is wrong on plain clouds is wrong in every other check; a reason without a text is a separate fault."""

    def register(method, source, target):
        assert method.seed == 7 and len(source) == 2 and len(target) == 3
        if isinstance(answer, Exception):
            raise answer
        return answer

    arguments = stub(register), np.ones((2, 3), np.float32), np.ones((3, 3), np.float32), 7, what
    if says is None:
        pose, reply = checks.call_method(*arguments)
        assert reply.status == ("ok" if isinstance(answer, np.ndarray) else "no_solution")
        assert np.array_equal(pose, answer) if isinstance(answer, np.ndarray) else pose is None
        return
    with pytest.raises(CheckFailed, match=re.escape(says)) as caught:
        checks.call_method(*arguments)
    plain = what == checks.PLAIN and not isinstance(answer, NoSolution)
    assert isinstance(caught.value, checks.PlainCallFailed) == plain and str(caught.value).startswith(f"{what}: ")
    hint = "such as methods.base.rigid(rotation, translation), or raise NoSolution"
    assert str(caught.value).endswith(hint) == ("last row" in says)


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_calls_within_the_block_are_made_on_its_device(monkeypatch, device):
    seen, usual = [], checks.register
    monkeypatch.setattr(
        checks, "register", lambda method, on, request: seen.append(on) or usual(method, "cpu", request)
    )
    method = stub(lambda method, source, target: np.eye(4))
    with checks.on_device(device):
        checks.unequal_sizes(method)
        checks.batches(method)
    checks.unequal_sizes(method)
    assert set(seen[:-2]) == {device} and seen[-2:] == ["cpu", "cpu"] and len(seen) == 2 + 4 + 2


def test_every_part_has_a_docstring_and_one_of_the_kinds():
    for kind in ("local", "global", "learned", "control"):
        assert checks.documented(stub(None, kind=kind)) == kind
    with pytest.raises(CheckFailed, match=r"kind is 'best'; set kind to one of local, global, learned, control"):
        checks.documented(stub(None, kind="best"))
    for parts in ((stub(None), stub(None, __doc__="")), (stub(None, __doc__=""), stub(None))):
        with pytest.raises(CheckFailed, match="the class Own has no docstring"):
            checks.documented(Chain(parts=parts))


@pytest.mark.parametrize("check", [checks.known_poses, checks.point_order])
def test_a_control_need_not_register(check):
    assert check(stub(None, kind="control")) == checks.NOT_FOR_CONTROLS


def test_a_known_pose_that_fails_once_is_no_fault_and_seeds_differ():
    """The median of three errors counts, those of the identity and of the inverse likewise."""
    seen = []

    def answer(method, source, target):
        seen.append((method.seed, source))
        return aligned(source, target) if method.seed != 1 else rigid(np.eye(3), np.full(3, 50.0))

    text = outcome_of(checks.known_poses, stub(answer))
    assert text.startswith("error ") and float(text.split()[1].strip(";")) < 0.05
    assert [seed for seed, _ in seen] == [0, 1, 2]
    assert all(np.array_equal(source, checks.easy_pair(key=key)[0]) for key, source in seen)
    identities = []
    for key in range(3):
        source, _, T = checks.easy_pair(key=key)
        identities.append(np.sqrt(((source @ T[:3, :3].T + T[:3, 3] - source) ** 2).sum(1).mean()))
    assert f"the identity has {np.median(identities):.3g}" in text
    twice = stub(lambda method, *clouds: aligned(*clouds) if method.seed == 1 else rigid(np.eye(3), np.full(3, 50.0)))
    assert "for rotations of 10° and translations of 0.15 the error is" in outcome_of(checks.known_poses, twice)
    back = stub(lambda method, *clouds: np.linalg.inv(aligned(*clouds)))
    assert "return its inverse" in outcome_of(checks.known_poses, back)
    none = outcome_of(checks.known_poses, stub(lambda *_: _raise(NoSolution("none"))))
    assert "the error is inf, no better than the identity" in none


def _raise(error):
    raise error


def test_the_order_of_points_is_that_of_the_source_and_another():
    seen = []
    text = checks.point_order(stub(lambda method, *clouds: seen.append(clouds) or aligned(*clouds)))
    (source, in_order), (again, shuffled) = seen
    _, target, T = checks.easy_pair(key=7)
    assert np.array_equal(source, again) and np.array_equal(shuffled, target) and in_order.dtype == np.float32
    np.testing.assert_allclose(in_order, source @ T[:3, :3].T + T[:3, 3], atol=1e-6)
    assert text.startswith("error ") and text.endswith(" in any order")
    shown = checks.error(aligned(source, target), T, source)
    assert text == f"error {shown:.3g} in any order"


def test_clouds_of_other_sizes_are_tried_both_ways():
    seen = []

    def answer(method, source, target):
        seen.append((len(source), len(target)))
        return np.eye(4) if len(source) < len(target) else _raise(NoSolution("x"))

    assert checks.unequal_sizes(stub(answer)) == "ok and no_solution" and seen == [(250, 400), (400, 250)]
    with pytest.raises(CheckFailed, match=r"^400 points and 250 points: "):
        checks.unequal_sizes(stub(lambda m, a, b: np.eye(4) if len(a) < len(b) else None))


def test_degenerate_clouds_are_tried_as_source_as_target_and_as_both():
    seen = []

    def answer(method, source, target):
        seen.append((source.copy(), target.copy()))
        source[:] = target[:] = 5  # the next call has its own clouds
        return np.eye(4) if len(seen) % 3 == 1 else _raise(NoSolution("x"))

    assert checks.degenerate(stub(answer)) == "a pose for 13 of 39, a reason for the others"
    good = checks.random_cloud(key=1).astype(np.float32)
    for number, (name, cloud) in enumerate(checks.DEGENERATE_CLOUDS.items()):
        bad = cloud.astype(np.float32)
        for pair, expected in zip(seen[3 * number :][:3], ((bad, good), (good, bad), (bad, bad)), strict=True):
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(pair, expected, strict=True)), name
    with pytest.raises(CheckFailed, match="target one point: the pose has shape"):
        checks.degenerate(stub(lambda m, a, b: np.eye(3) if len(b) == 1 and len(a) > 1 else np.eye(4)))


@pytest.mark.parametrize("fault", [None, "float64", "strided", "no solution"])
def test_arrays_of_other_types_and_layouts_have_the_same_values(fault):
    seen = []

    def answer(method, source, target):
        seen.append((source, target))
        wrong = (fault == "float64" and source.dtype == np.float64) or (
            fault == "strided" and not source.flags.c_contiguous
        )
        if fault == "no solution" and len(seen) == 2:
            raise NoSolution("x")
        return rigid(np.eye(3), [1e-2 if wrong else 1e-4 * len(seen), 0, 0])

    text = outcome_of(checks.dtype_and_layout, stub(answer))
    name = {"float64": "float64", "no solution": "float64", "strided": "strided arrays"}.get(fault)
    assert text == "float32, float64, strided" if fault is None else f"wrong: {name} with the same values" in text
    if fault is None:
        plain, wide, strided = seen
        assert plain[0].dtype == plain[1].dtype == np.float32 and plain[0].flags.c_contiguous
        assert wide[0].dtype == wide[1].dtype == np.float64
        assert not strided[0].flags.c_contiguous and not strided[1].flags.c_contiguous
        for other in (wide, strided):
            assert all(np.array_equal(a, b) for a, b in zip(plain, other, strict=True))


@pytest.mark.parametrize("side", [None, 0, 1])
def test_a_changed_cloud_is_named(side):
    def answer(method, *clouds):
        if side is not None:
            clouds[side][3] += 1
        return np.eye(4)

    name = ("source", "target")[side or 0]
    expected = f"wrong: register changes the {name}; work on a copy: {name} = {name} - {name}.mean(0), not -="
    assert outcome_of(checks.input_unchanged, stub(answer)) == ("" if side is None else expected)


def test_unrelated_clouds_are_three_pairs():
    seen = []

    def answer(method, *clouds):
        seen.append((method.seed, *clouds))
        return np.eye(4) if method.seed == 2 else _raise(NoSolution("x"))

    assert checks.rigid_output(stub(answer)) == "a pose for 1 of 3"
    for key, (seed, source, target) in enumerate(seen):
        assert seed == key and source.dtype == target.dtype == np.float32
        assert np.array_equal(source, checks.random_cloud(150, key).astype(np.float32))
        assert np.array_equal(target, checks.asymmetric_cloud(150, key).astype(np.float32))


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize(
    ("shifts", "same", "seeded"),
    [
        ((1, 1, 1), True, False),
        ((1, 2, 1), True, True),
        ((1, 1, 2), False, True),
        ((1, 2, 2), False, True),
        ((None, None, None), True, False),
        ((None, 1, None), True, True),
        ((1, 1, None), False, False),
    ],
)
def test_the_same_seed_gives_the_same_bits(random, shifts, same, seeded):
    calls = []

    def answer(method, *_):
        calls.append(method.seed)
        shift = shifts[len(calls) - 1]
        return _raise(NoSolution("x")) if shift is None else rigid(np.eye(3), [1e-9 * shift, 0, 0])

    text = outcome_of(checks.deterministic, stub(answer, random=random, batched=False))
    assert calls == [5, 6, 5]
    if not same:
        assert text.startswith("wrong: two calls with the same seed differ")
    elif seeded and not random:
        assert text == "wrong: the pose depends on the seed; set random = True"
    else:
        assert text == ("depends on the seed, as declared" if random else "depends on the clouds only")


@pytest.mark.parametrize(("apart", "agree"), [(0.0, True), (0.99e-3, True), (1.01e-3, False)])
def test_poses_agree_within_a_thousandth(apart, agree):
    source, pose = np.zeros((4, 3)), rigid(np.eye(3), [apart, 0, 0])
    assert checks._agree(pose, np.eye(4), source) == agree
    assert checks._agree(None, None, source) and not checks._agree(pose, None, source)
    assert not checks._agree(None, pose, source)
    assert checks._agree(pose, np.eye(4), np.vstack([source, [0, np.nan, 0]])) == agree, "finite points count"


@pytest.mark.parametrize(
    ("total", "ms", "wrong"), [(103.0, 100.0, False), (103.1, 100.0, True), (2.0, 0.9, True), (2.0, 1.0, False)]
)
def test_stages_may_take_two_percent_and_a_millisecond_more(monkeypatch, total, ms, wrong):
    stages = {"a": total - 1, "b": 1.0}
    monkeypatch.setattr(checks, "call_method", lambda *_: (None, SimpleNamespace(time_ms=ms, stages=stages)))
    text = outcome_of(checks.stages_add_up, build("pca"))
    assert text.startswith("wrong: ") == wrong
    assert (
        f"{total:.1f} ms of a call of {ms:.1f} ms" in text if wrong else text == f"a, b: {total / ms:.0%} of the call"
    )


@pytest.mark.parametrize(("end", "wrong"), [("start", False), ("truth", False), ("worse", True)])
def test_a_refinement_begins_at_its_initial_pose(end, wrong):
    """Clouds are apart by a large motion, 120° about z and 2 along x, which is given, and by a small one, which is not."""
    source, _, small = checks.easy_pair(key=9)
    quarter = np.array([[-0.5, -np.sqrt(0.75), 0], [np.sqrt(0.75), -0.5, 0], [0, 0, 1.0]])
    large, given = rigid(quarter, [2.0, 0, 0]), []
    steps = {"start": np.eye(4), "truth": small, "worse": np.linalg.inv(small)}

    class Refiner(Method):
        """A stub that refines."""

        local = True

        def register(self, source, target, init):
            given.append((self.seed, source, target, init))
            return init @ steps[end]

    text = outcome_of(checks.initial_pose, Refiner())
    ((seed, own, target, init),) = given
    assert seed == 0 and np.array_equal(own, source) and target.dtype == np.float32
    np.testing.assert_allclose(init, large, atol=1e-12)
    truth = init @ small
    moved = source @ truth[:3, :3].T + truth[:3, 3]
    assert cdist(moved, target).min(axis=1).max() < 1e-5
    errors = [checks.error(pose, truth, source) for pose in (init, init @ steps[end])]
    expected = "from an init with error {:.3g} the error rises to {:.3g}; start from init"
    assert text == ("wrong: " + expected if wrong else "error {:.3g} becomes {:.3g}").format(*errors)


@pytest.mark.parametrize("fault", [None, "apart", "solution", "no solution"])
def test_a_batch_is_three_pairs_of_which_one_is_not_finite(fault):
    seen = []

    def alone(method, source, target):
        seen.append((method.seed, source, target))
        return _raise(NoSolution("x")) if np.isnan(source).any() else np.eye(4)

    def together(self, sources, targets):
        assert self.seed == 0 and len(sources) == len(targets) == 3
        for one, many in zip(seen, zip(sources, targets, strict=True), strict=True):
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one[1:], many, strict=True))
        results = [NoSolution("x") if np.isnan(c).any() else np.eye(4) for c in sources]
        if fault == "apart":
            results[2] = rigid(np.eye(3), [0.01, 0, 0])
        elif fault == "solution":
            results[1] = np.eye(4)
        elif fault == "no solution":
            results[0] = NoSolution("y")
        return results

    text = outcome_of(checks.batches, stub(alone, register_batch=together))
    right = "3 pairs at once give the same poses as one at a time"
    assert text == right if fault is None else "another pose than register" in text
    assert [np.isnan(source).sum() for _, source, _ in seen] == [0, 1, 0]
    for key, (_, source, target) in enumerate(seen):
        a, b, _ = checks.easy_pair(key=20 + key)
        assert np.array_equal(target, b) and (source != a).sum() == (key == 1)
    assert checks.batches(stub(alone, random=True)) == "not supported"


def test_the_server_runs_a_check_on_the_device_and_tells_how_it_ended(monkeypatch):
    def plain(method):
        return checks.call_method(method, np.ones((2, 3)), np.ones((2, 3)))[0]

    tried = {
        "fine": lambda method: f"on {checks._device.get()}",
        "wrong": lambda method: _raise(CheckFailed("do this")),
        "broken": plain,
    }
    monkeypatch.setattr(server, "CHECKS", tried)
    method = stub(lambda *_: None)
    replies = [server.check(method, "cuda:3", CheckRequest(name)) for name in tried]
    assert [reply.status for reply in replies] == ["ok", "error", "invalid"]
    assert [reply.message for reply in replies[:2]] == ["on cuda:3", "do this"]
    assert replies[2].message.startswith("two plain clouds: ") and checks._device.get() == "cpu"


def test_degenerate_clouds_are_changes_of_one_cloud():
    clouds, blob = checks.DEGENERATE_CLOUDS, checks.random_cloud()
    for name, expected in {
        "two points": checks.random_cloud(2),
        "few points": checks.random_cloud(5),
        "one point": [[1, 1, 1]],
        "planar": np.column_stack([blob[:, :2], np.zeros(200)]),
        "huge": 1e6 * blob,
        "tiny": blob / 1e6,
        "far away": blob + 1e6,
        "all equal": np.full((100, 3), 0.7),
        "collinear": np.column_stack([np.linspace(-k, k, 100) for k in (1, 2, 3)]),
        "duplicates": checks.random_cloud(40)[np.arange(200) // 5],
    }.items():
        np.testing.assert_allclose(clouds[name], expected, rtol=1e-12, err_msg=name)
    for name, value in (("one nan", np.nan), ("infinite", np.inf)):
        assert np.array_equal(np.argwhere(clouds[name] != blob), [[2, 1]])
        np.testing.assert_equal(clouds[name][2, 1], value)


@pytest.mark.parametrize(
    ("check", "key", "size"),
    [
        (checks.unequal_sizes, 3, 400),
        (checks.dtype_and_layout, 4, 400),
        (checks.input_unchanged, 5, 400),
        (checks.deterministic, 6, 400),
        (checks.point_order, 7, 400),
        (checks.stages_add_up, 8, 400),
        (checks.bounded, 10, 2000),
        (checks.batches, 20, 400),
    ],
)
def test_every_check_has_its_own_pair_of_clouds(check, key, size):
    """Of the same points in every version, so that a method that passes a check does so again."""
    seen = []
    outcome_of(check, stub(lambda method, *clouds: seen.append(clouds) or np.eye(4)))
    expected = checks.easy_pair(size, key)[0]
    assert np.array_equal(expected[: len(seen[0][0])], seen[0][0]) and len(seen[0][0]) in (250, size)


def test_clouds_of_the_checks_are_the_same_in_every_version():
    """A method that passed a check passes it again. First points, from the generators of `common.keys`."""
    source, target, T = checks.easy_pair(5, 1)
    for cloud, expected in {
        "blob": (checks.random_cloud(2, 1), (0.520177711, 0.325234927, -0.096424901)),
        "thing": (checks.asymmetric_cloud(2, 1), (-0.954252519, -0.095267884, 0.131602845)),
        "source": (source, (-0.036033604, -0.68425775, 0.081685476)),
        "target": (target, (0.11470783, -0.8152577, -0.057479385)),
        "pose": (T[:3], (0.985024279, -0.138181457, 0.103116702, 0.008732918)),
    }.values():
        np.testing.assert_allclose(cloud[0], expected, rtol=1e-6)
    assert np.array_equal(checks.asymmetric_cloud(9), checks.asymmetric_cloud(9, 0))
    assert np.array_equal(checks.random_cloud(9), checks.random_cloud(9, 0)) and len(checks.random_cloud()) == 200
    assert np.array_equal(checks.easy_pair(400, 0)[0], checks.easy_pair()[0])
