"""Conformance checks of methods, used by `bench.py check` and by the tests.

A check returns a remark, or raises `CheckFailed` with what is wrong and how to fix it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from bench.isolation.protocol import RegisterRequest, Reply
from bench.isolation.server import register
from bench.storage.outcome import Status
from bench.storage.pose import names_fix, translation_fault
from common.devices import CPU
from common.keys import rng
from datasets.poses import axis_rotation, direction, haar, move
from methods.base import Method, rigid
from methods.core.chain import Chain
from methods.core.description import documented as documented_class
from methods.core.description import summary_of

Array = NDArray[Any]
Check = Callable[[Method], str]

KINDS = ("local", "global", "learned", "control")
EASY_DEG, EASY_SHIFT = 10.0, 0.15
"""Rotation in degrees and translation of the known poses: small enough that any method must beat the identity."""
KNOWN_POSES = 3
"""Pairs of the check of known poses."""
BATCH_PAIRS = 3
"""Pairs of the check of batches."""
MAX_CALL_S, MAX_CALL_MB = 20.0, 4000.0
"""Limits of a call on two clouds of `LARGE_CLOUD_POINTS` points."""
LARGE_CLOUD_POINTS = 2000
NOT_FOR_CONTROLS = "not required of a control"


_device: ContextVar[str] = ContextVar("_device", default=CPU)
"""Device that the method has been set up on, see `on_device`."""
PLAIN = "two plain clouds"
"""What a call is made on unless a check names something else."""


class CheckFailed(Exception):
    """Raised by a check with what a method does wrong and how to fix it."""


class PlainCallFailed(CheckFailed):
    """Raised if a call on two plain clouds fails: every other check would fail in the same way."""


@dataclass(frozen=True)
class CheckRequest:
    """Request to run a check, by its name in `CHECKS`, in the method's process."""

    name: str


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Make the calls of the checks within the block on a device, on which the method has been set up."""
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def random_cloud(n: int = 200, key: int = 0) -> Array:
    """Return a random cloud (n, 3) float64 with different widths along the axes."""
    return rng("blob", key).normal(size=(n, 3)) * (0.5, 0.3, 0.1)


def asymmetric_cloud(n: int, key: int = 0) -> Array:
    """Return points (n, 3) float64 on a surface without symmetry, about 2 in diameter: an ellipsoid with two dents and a horn."""
    u = rng("thing", key).normal(size=(n, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    bumps = {(1.0, 0.2, 0.1): 0.35, (-0.2, 0.9, 0.4): -0.3, (0.1, -0.3, 0.95): -0.25}
    radius = 1 + sum(h * np.exp(8 * (u @ np.array(d) / np.linalg.norm(d) - 1)) for d, h in bumps.items())
    return np.asarray(u * radius[:, None] * (1.0, 0.7, 0.5))


def _with_value(cloud: Array, index: int, value: float) -> Array:
    """Return a copy of a cloud with one coordinate replaced; `index` counts coordinates row by row."""
    changed = cloud.copy()
    changed.ravel()[index] = value
    return changed


DEGENERATE_CLOUDS = {
    "empty": np.empty((0, 3)),
    "one point": np.ones((1, 3)),
    "two points": random_cloud(2),
    "few points": random_cloud(5),
    "collinear": np.outer(np.linspace(-1, 1, 100), (1, 2, 3)),
    "all equal": np.full((100, 3), 0.7),
    "planar": random_cloud() * (1, 1, 0),
    "duplicates": np.repeat(random_cloud(40), 5, axis=0),
    "one nan": _with_value(random_cloud(), 7, np.nan),
    "infinite": _with_value(random_cloud(), 7, np.inf),
    "huge": random_cloud() * 1e6,
    "tiny": random_cloud() * 1e-6,
    "far away": random_cloud() + 1e6,
}
"""Name to cloud (n, 3) of degenerate inputs that occur in real data."""


def easy_pair(n: int = 400, key: int = 0) -> tuple[Array, Array, Array]:
    """Return source and target (n, 3) float32 with the same points in another order, and the true pose (4, 4), a small one."""
    random = rng("easy", key)
    cloud = asymmetric_cloud(n)
    source = move(rigid(haar(random), np.zeros(3)), cloud)
    T = rigid(axis_rotation(direction(random), EASY_DEG), EASY_SHIFT * direction(random))
    return source.astype(np.float32), random.permutation(move(T, source)).astype(np.float32), T


def call_method(
    method: Method, source: Array, target: Array, seed: int = 0, what: str = PLAIN
) -> tuple[Array | None, Reply]:
    """Call a method as a run does; return the reply and the rigid pose, or None if the method raised `NoSolution`.

    Raises:
        CheckFailed: the method returned anything else.
    """
    failure = PlainCallFailed if what == PLAIN else CheckFailed
    reply = register(method, _device.get(), RegisterRequest([source], [target], seed))
    if reply.status == Status.NO_SOLUTION:
        if not reply.message:
            raise CheckFailed(f"{what}: NoSolution has no text; raise NoSolution with the reason")
        return None, reply
    if reply.status != Status.OK:
        raise failure(f"{what}: {reply.message}; fix it, or raise NoSolution with the reason")
    pair = reply.pairs[0]
    fault = pair.message if pair.status != Status.OK else translation_fault(pair.pose, source, target)
    if fault:
        hint = "; return T_target_source (4, 4), such as methods.base.rigid(rotation, translation), or raise NoSolution"
        raise failure(f"{what}: {fault}{'' if names_fix(fault) else hint}")
    return pair.pose, reply


def error(pose: Array | None, T: Array, source: Array) -> float:
    """Return the root mean square distance of a pose from the true pose T on the source's points; infinite without a pose."""
    return float("inf") if pose is None else float(metrics.rmse(pose, T, source))


def documented(method: Method) -> str:
    """Check that the class has a docstring and a kind."""
    for part in method.parts if isinstance(method, Chain) else (method,):
        if not documented_class(type(part)):
            raise CheckFailed(f"the class {type(part).__name__} {summary_of(type(part))}; lists and reports show it")
        if part.kind not in KINDS:
            raise CheckFailed(f"kind is '{part.kind}'; set kind to one of {', '.join(KINDS)}")
    return method.kind


def known_poses(method: Method) -> str:
    """Check that the pose error of small known motions is below that of the identity, and the direction is right."""
    if method.kind == "control":
        return NOT_FOR_CONTROLS
    errors, inverse_errors, identity_errors = [], [], []
    for key in range(KNOWN_POSES):
        source, target, T = easy_pair(key=key)
        pose, _ = call_method(method, source, target, key)
        errors.append(error(pose, T, source))
        identity_errors.append(error(np.eye(4), T, source))
        inverse_errors.append(error(None if pose is None else np.linalg.inv(pose), T, source))
    typical, inverse, identity = (float(np.median(e)) for e in (errors, inverse_errors, identity_errors))
    if typical >= identity and inverse < 0.7 * identity:
        raise CheckFailed("the pose maps the target into the source; return its inverse, T_target_source")
    if typical >= identity:
        raise CheckFailed(
            f"for rotations of {EASY_DEG:g}° and translations of {EASY_SHIFT:g} the error is {typical:.3g}, no better than the "
            f'identity ({identity:.3g}); fix it, or set kind = "control" if it is not meant to register'
        )
    return f"error {typical:.3g}; the identity has {identity:.3g}"


def point_order(method: Method) -> str:
    """Check that the result does not depend on the order of the points."""
    if method.kind == "control":
        return NOT_FOR_CONTROLS
    source, target, T = easy_pair(key=7)
    in_order = move(T, source.astype(np.float64)).astype(np.float32)
    errors = [error(call_method(method, source, cloud)[0], T, source) for cloud in (in_order, target)]
    if errors[0] < 0.02 and errors[1] > 10 * max(errors[0], 0.02):
        raise CheckFailed(
            f"error {errors[0]:.3g} with rows in the same order, {errors[1]:.3g} when shuffled; match points by "
            "position or neighbourhood, not by their index"
        )
    return f"error {errors[1]:.3g} in any order"


def unequal_sizes(method: Method) -> str:
    """Check that the clouds may have different numbers of points."""
    source, target, _ = easy_pair(key=3)
    pairs = (source[:250], target), (source, target[:250])
    replies = [call_method(method, *pair, what=" and ".join(f"{len(c)} points" for c in pair))[1] for pair in pairs]
    return " and ".join(reply.status for reply in replies)


def degenerate(method: Method) -> str:
    """Check that empty, flat, huge and non-finite clouds give a rigid pose or NoSolution with a reason."""
    good = random_cloud(key=1).astype(np.float32)
    poses = 0
    for name, cloud in DEGENERATE_CLOUDS.items():
        bad = cloud.astype(np.float32)
        for side, pair in {"source": (bad, good), "target": (good, bad), "both": (bad, bad)}.items():
            pose, _ = call_method(method, pair[0].copy(), pair[1].copy(), what=f"{side} {name}")
            poses += pose is not None
    return f"a pose for {poses} of {3 * len(DEGENERATE_CLOUDS)}, a reason for the others"


def dtype_and_layout(method: Method) -> str:
    """Check that float64 and strided arrays with the same values give the same pose."""
    source, target, _ = easy_pair(key=4)
    wide = np.repeat(source, 2, axis=1)[:, ::2], np.asfortranarray(target)
    variants = {"float64": (source.astype(np.float64), target.astype(np.float64)), "strided arrays": wide}
    expected, _ = call_method(method, source, target)
    for name, pair in variants.items():
        pose, _ = call_method(method, *pair, what=name)
        if not _agree(pose, expected, source):
            fix = "start register with np.ascontiguousarray(cloud, …)"
            raise CheckFailed(f"{name} with the same values give another pose; {fix}")
    return "float32, float64, strided"


def input_unchanged(method: Method) -> str:
    """Check that a call does not change its input."""
    source, target, _ = easy_pair(key=5)
    kept = source.copy(), target.copy()
    call_method(method, source, target)
    for name, before, after in (("source", kept[0], source), ("target", kept[1], target)):
        if not np.array_equal(before, after):
            raise CheckFailed(f"register changes the {name}; work on a copy: {name} = {name} - {name}.mean(0), not -=")
    return ""


def rigid_output(method: Method) -> str:
    """Check that unrelated clouds give a rigid pose or NoSolution, too."""
    poses = [
        call_method(method, random_cloud(150, k).astype(np.float32), asymmetric_cloud(150, k).astype(np.float32), k)[0]
        for k in range(3)
    ]
    return f"a pose for {sum(pose is not None for pose in poses)} of {len(poses)}"


def deterministic(method: Method) -> str:
    """Check that the same seed gives the same bits, and so does another seed unless `random = True`."""
    source, target, _ = easy_pair(key=6)
    first, other, again = (call_method(method, source, target, seed)[0] for seed in (5, 6, 5))
    if not _equal(first, again):
        fix = "draw from self.rng or self.seed, and keep no state between calls"
        raise CheckFailed(f"two calls with the same seed differ; {fix}")
    if not method.random and not _equal(first, other):
        raise CheckFailed("the pose depends on the seed; set random = True")
    return "depends on the seed, as declared" if method.random else "depends on the clouds only"


def _equal(first: Array | None, second: Array | None) -> bool:
    """Return whether two poses are equal bit for bit, or both missing."""
    return np.array_equal(np.asarray(first), np.asarray(second))


def _agree(first: Array | None, second: Array | None, source: Array) -> bool:
    """Return whether two poses differ by rounding at most on the finite points of a cloud, or are both missing."""
    if first is None or second is None:
        return first is second
    return error(first, second, source[np.isfinite(source).all(axis=1)]) <= 1e-3


def stages_add_up(method: Method) -> str:
    """Check that the times of the stages sum to at most the time of the call."""
    source, target, _ = easy_pair(key=8)
    _, reply = call_method(method, source, target)
    total = sum(reply.stages.values())
    if total > 1.02 * reply.time_ms + 1:
        raise CheckFailed(
            f"the stages take {total:.1f} ms of a call of {reply.time_ms:.1f} ms: one lies inside another; "
            "end a self.stage(…) before the next begins"
        )
    return f"{', '.join(reply.stages)}: {total / reply.time_ms:.0%} of the call" if total else "none"


def initial_pose(method: Method) -> str:
    """Check that a local method starts from `init` and does not make a good initial pose worse."""
    last = method.parts[-1] if isinstance(method, Chain) else method
    if not last.local:
        return "not supported"
    source, target, small = easy_pair(key=9)
    large = rigid(axis_rotation(np.array([0.0, 0.0, 1.0]), 120.0), np.array([2.0, 0.0, 0.0]))
    start, truth = large, large @ small
    target = move(large, target.astype(np.float64)).astype(np.float32)
    last.begin(0)
    try:
        T = np.asarray(last.register(source, target, start))  # type: ignore[call-arg]
    except TypeError as reason:
        fix = "add init=None after target"
        raise CheckFailed(f"local = True, but register does not accept init ({reason}); {fix}") from reason
    before, after = (float(metrics.rmse(pose, truth, source)) for pose in (start, T))
    if after > before:
        raise CheckFailed(f"from an init with error {before:.3g} the error rises to {after:.3g}; start from init")
    return f"error {before:.3g} becomes {after:.3g}"


def bounded(method: Method) -> str:
    """Check that clouds of `LARGE_CLOUD_POINTS` points take limited time and memory."""
    source, target, _ = easy_pair(LARGE_CLOUD_POINTS, key=10)
    _, reply = call_method(method, source, target)
    seconds, size = reply.time_ms / 1e3, f"for {LARGE_CLOUD_POINTS} points"
    if seconds > MAX_CALL_S:
        raise CheckFailed(f"{seconds:.0f} s {size}, over {MAX_CALL_S:g} s; subsample the clouds or iterate less")
    if reply.peak_mb > MAX_CALL_MB:
        fix = "subsample the clouds or work in blocks"
        raise CheckFailed(f"{reply.peak_mb:.0f} MB {size}, over {MAX_CALL_MB:g} MB; {fix}")
    return f"{reply.time_ms:.0f} ms and {max(reply.peak_mb, 0):.0f} MB {size}"


def batches(method: Method) -> str:
    """Check that a batch gives the same poses as its pairs alone, even if one of them is not finite."""
    if not method.solves_batches:
        return "not supported"
    pairs = [easy_pair(key=20 + k)[:2] for k in range(BATCH_PAIRS)]
    pairs[1] = (_with_value(pairs[1][0], 7, np.nan), pairs[1][1])
    expected = [call_method(method, *pair)[0] for pair in pairs]
    sources, targets = (list(clouds) for clouds in zip(*pairs, strict=True))
    reply = register(method, _device.get(), RegisterRequest(sources, targets, 0))
    if reply.status != Status.OK:
        raise CheckFailed(f"register_batch: {reply.message}; return a NoSolution for a pair without a pose")
    if len(reply.pairs) != len(pairs):
        raise CheckFailed(
            f"register_batch returns {len(reply.pairs)} results for {len(pairs)} pairs; return one per pair"
        )
    for (source, _), alone, pair in zip(pairs, expected, reply.pairs, strict=True):
        pose = pair.pose if pair.status == Status.OK else None
        if not _agree(pose, alone, source):
            raise CheckFailed("register_batch returns another pose than register; they may differ by rounding only")
    return f"{len(pairs)} pairs at once give the same poses as one at a time"


CHECKS: dict[str, Check] = {
    "docstring and kind": documented,
    "time and memory": bounded,
    "known poses": known_poses,
    "point order": point_order,
    "unequal sizes": unequal_sizes,
    "degenerate clouds": degenerate,
    "dtype and layout": dtype_and_layout,
    "input unchanged": input_unchanged,
    "rigid output": rigid_output,
    "determinism": deterministic,
    "stage times": stages_add_up,
    "initial pose": initial_pose,
    "batches": batches,
}
"""Name to check, in the order in which they are run."""
