"""What every method owes, whatever it is. One definition for `bench.py check` and for the tests.

A check raises `Complaint` with what is wrong and what to do about it, or returns a remark.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from bench.isolation.server import register, register_batch
from bench.storage.outcome import pose_fault
from common.keys import rng
from datasets.poses import axis_rotation, direction, haar, move
from methods.base import Method, rigid
from methods.core import registry
from methods.core.chain import Chain

Array = NDArray[Any]
Check = Callable[[Method], str]

KINDS = ("local", "global", "learned", "control")
EASY_DEG, EASY_SHIFT = 10.0, 0.15
"""Rotation and translation of the known poses: any method that registers at all is better there than doing nothing."""
POSES = IN_BATCH = 3
SLOWEST_S, MOST_MB = 20.0, 4000.0
"""What a call on two clouds of `LARGE_OFFSET` points may take."""
LARGE_OFFSET = 2000
CONTROL = "not asked of a control"


class CheckFailed(Exception):
    """What a method does wrong, and what to do."""


def blob(n: int = 200, key: int = 0) -> Array:
    """A random cloud (n, 3) float64, of different width along each axis."""
    return rng("blob", key).normal(size=(n, 3)) * (0.5, 0.3, 0.1)


def asymmetric_cloud(n: int = 400, key: int = 0) -> Array:
    """Points (n, 3) float64 on a surface without symmetry, about 2 across: an ellipsoid with two dents and a horn."""
    u = rng("thing", key).normal(size=(n, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    bumps = {(1.0, 0.2, 0.1): 0.35, (-0.2, 0.9, 0.4): -0.3, (0.1, -0.3, 0.95): -0.25}
    radius = 1 + sum(h * np.exp(8 * (u @ np.array(d) / np.linalg.norm(d) - 1)) for d, h in bumps.items())
    return np.asarray(u * radius[:, None] * (1.0, 0.7, 0.5))


def _at(cloud: Array, where: int, value: float) -> Array:
    changed = cloud.copy()
    changed.ravel()[where] = value
    return changed


HOSTILE = {
    "empty": np.empty((0, 3)),
    "one point": np.ones((1, 3)),
    "two points": blob(2),
    "few points": blob(5),
    "collinear": np.outer(np.linspace(-1, 1, 100), (1, 2, 3)),
    "all equal": np.full((100, 3), 0.7),
    "planar": blob() * (1, 1, 0),
    "duplicates": np.repeat(blob(40), 5, axis=0),
    "one nan": _at(blob(), 7, np.nan),
    "infinite": _at(blob(), 7, np.inf),
    "huge": blob() * 1e6,
    "tiny": blob() * 1e-6,
    "far away": blob() + 1e6,
}
"""Clouds that real data holds now and then."""


def easy(n: int = 400, key: int = 0) -> tuple[Array, Array, Array]:
    """Source and target (n, 3) float32 with the same points in another order, and the true pose (4, 4), a small one."""
    random = rng("easy", key)
    cloud = asymmetric_cloud(n)
    source = move(rigid(haar(random), np.zeros(3)), cloud)
    T = rigid(axis_rotation(direction(random), EASY_DEG), EASY_SHIFT * direction(random))
    return source.astype(np.float32), random.permutation(move(T, source)).astype(np.float32), T


def call_method(
    method: Method, source: Array, target: Array, seed: int = 0, what: str = "two plain clouds"
) -> dict[str, Any]:
    """The reply to one call, as a run would get it: a rigid pose or no solution with its reason.

    Raises:
        Complaint: anything else.
    """
    reply = register(method, "cpu", {"source": source, "target": target, "seed": seed})
    if reply["status"] == "no_solution":
        if not reply["message"]:
            raise CheckFailed(f"{what}: NoSolution has no text; raise NoSolution with the reason")
        return reply
    if reply["status"] != "ok":
        raise CheckFailed(f"{what}: {reply['message']}; mend it, or raise NoSolution with the reason")
    if fault := pose_fault(reply["pose"]):
        hint = "return T_target_source (4, 4), such as methods.base.rigid(rotation, translation), or raise NoSolution"
        raise CheckFailed(f"{what}: {fault}; {hint}")
    return reply


def error(reply: dict[str, Any], T: Array, source: Array) -> float:
    """Root mean square distance of a reply's pose from the truth, on the source's points; infinite if there is none."""
    return float(metrics.rmse(reply["pose"], T, source)) if reply["status"] == "ok" else float("inf")


def documented(method: Method) -> str:
    """The class has a docstring and a kind."""
    for part in method.parts if isinstance(method, Chain) else (method,):
        offer = registry.MethodEntry(type(part), {}, Path(inspect.getfile(type(part))))
        if not offer.documented:
            raise CheckFailed(f"the class {type(part).__name__} {offer.summary}; it stands in lists and reports")
        if part.kind not in KINDS:
            raise CheckFailed(f"kind is '{part.kind}'; set kind to one of {', '.join(KINDS)}")
    return registry.kind_of(method)


def known_poses(method: Method) -> str:
    """Small known motions of the same points are found better than by doing nothing, and in the right direction."""
    if registry.kind_of(method) == "control":
        return CONTROL
    found, inverse, nothing = [], [], []
    for key in range(POSES):
        source, target, T = easy(key=key)
        reply = call_method(method, source, target, key)
        found.append(error(reply, T, source))
        nothing.append(float(metrics.rmse(np.eye(4), T, source)))
        if reply["status"] == "ok":
            inverse.append(error(reply | {"pose": np.linalg.inv(reply["pose"])}, T, source))
    worst, best, none = np.median(found), np.median(inverse or [np.inf]), np.median(nothing)
    if worst >= none and best < 0.7 * none:
        raise CheckFailed("the pose maps the target into the source; return its inverse, T_target_source")
    if worst >= none:
        raise CheckFailed(
            f"on turns of {EASY_DEG:g}° and shifts of {EASY_SHIFT:g} the error is {worst:.3g}, no better than doing nothing "
            f'({none:.3g}); mend it, or set kind = "control" if it is not meant to register'
        )
    return f"error {worst:.3g}; doing nothing has {none:.3g}"


def point_order(method: Method) -> str:
    """Rows of the two clouds do not correspond, so the answer must not need them to."""
    if registry.kind_of(method) == "control":
        return CONTROL
    source, target, T = easy(key=7)
    in_order = move(T, source.astype(np.float64)).astype(np.float32)
    errors = [error(call_method(method, source, cloud), T, source) for cloud in (in_order, target)]
    if errors[0] < 0.02 and errors[1] > 10 * max(errors[0], 0.02):
        raise CheckFailed(
            f"error {errors[0]:.3g} with rows in the same order, {errors[1]:.3g} when shuffled; match points by where they "
            "are or what surrounds them, not by their index"
        )
    return f"error {errors[1]:.3g} in any order"


def unequal_sizes(method: Method) -> str:
    """The clouds may have different numbers of points."""
    source, target, _ = easy(key=3)
    replies = [
        call_method(method, a, b, what=f"{len(a)} and {len(b)} points")
        for a, b in ((source[:250], target), (source, target[:250]))
    ]
    return " and ".join(reply["status"] for reply in replies)


def degenerate(method: Method) -> str:
    """Empty, flat, huge, broken clouds give a rigid pose or NoSolution with a reason."""
    good = blob(key=1).astype(np.float32)
    answered = 0
    for name, cloud in HOSTILE.items():
        bad = cloud.astype(np.float32)
        for side, pair in {"source": (bad, good), "target": (good, bad), "both": (bad, bad)}.items():
            reply = call_method(method, pair[0].copy(), pair[1].copy(), what=f"{side} {name}")
            answered += reply["status"] == "ok"
    return f"a pose for {answered} of {3 * len(HOSTILE)}, a reason for the others"


def dtype_and_layout(method: Method) -> str:
    """float64 and strided arrays with the same values give the same pose."""
    source, target, _ = easy(key=4)
    wide = np.repeat(source, 2, axis=1)[:, ::2], np.asfortranarray(target)
    forms = {"float64": (source.astype(np.float64), target.astype(np.float64)), "strided arrays": wide}
    usual = call_method(method, source, target)
    for name, pair in forms.items():
        reply = call_method(method, *pair, what=name)
        same = reply["status"] == usual["status"]
        if not same or (reply["status"] == "ok" and error(reply, usual["pose"], source) > 1e-3):
            raise CheckFailed(
                f"{name} with the same values give another answer; start register with np.ascontiguousarray(cloud, …)"
            )
    return "float32, float64, strided"


def input_unchanged(method: Method) -> str:
    """The clouds are as they were after a call."""
    source, target, _ = easy(key=5)
    kept = source.copy(), target.copy()
    call_method(method, source, target)
    for name, before, after in (("source", kept[0], source), ("target", kept[1], target)):
        if not np.array_equal(before, after):
            raise CheckFailed(f"register changes the {name}; work on a copy: {name} = {name} - {name}.mean(0), not -=")
    return ""


def rigid_output(method: Method) -> str:
    """Clouds that have nothing to do with each other give a rigid pose or NoSolution, too."""
    replies = [
        call_method(method, blob(150, k).astype(np.float32), asymmetric_cloud(150, k).astype(np.float32), k)
        for k in range(3)
    ]
    return f"a pose for {sum(r['status'] == 'ok' for r in replies)} of {len(replies)}"


def deterministic(method: Method) -> str:
    """The same seed gives the same bits, whatever came between; another seed too, unless `random = True`."""
    source, target, _ = easy(key=6)
    first, other, again = (call_method(method, source, target, seed) for seed in (5, 6, 5))
    if not _equal(first, again):
        raise CheckFailed(
            "two calls with the same seed differ; draw from self.rng or self.seed, and keep nothing between calls"
        )
    if not registry.is_random(method) and not _equal(first, other):
        raise CheckFailed("the answer depends on the seed; set random = True")
    return "depends on the seed, as declared" if registry.is_random(method) else "depends on nothing but the clouds"


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one["status"] == other["status"] and np.array_equal(np.asarray(one["pose"]), np.asarray(other["pose"]))


def stages_add_up(method: Method) -> str:
    """Times of stages are within the time of the call."""
    source, target, _ = easy(key=8)
    reply = call_method(method, source, target)
    total = sum(reply["stages"].values())
    if total > 1.02 * reply["time_ms"] + 1:
        raise CheckFailed(
            f"the stages take {total:.1f} ms of a call of {reply['time_ms']:.1f} ms: one lies inside another; "
            "end a self.stage(…) before the next begins"
        )
    return f"{', '.join(reply['stages'])}: {total / reply['time_ms']:.0%} of the call" if total else "none"


def initial_pose(method: Method) -> str:
    """A local method starts from `init` and does not make a good one worse."""
    last = method.parts[-1] if isinstance(method, Chain) else method
    if not last.local:
        return "takes none"
    source, target, small = easy(key=9)
    away = rigid(axis_rotation(np.array([0.0, 0.0, 1.0]), 120.0), np.array([2.0, 0.0, 0.0]))
    start, truth = away, away @ small
    target = move(away, target.astype(np.float64)).astype(np.float32)
    last.begin(0)
    try:
        T = np.asarray(last.register(source, target, start))  # type: ignore[call-arg]
    except TypeError as reason:
        raise CheckFailed(
            f"local = True, but register can't be given init ({reason}); add init=None after target"
        ) from reason
    before, after = (float(metrics.rmse(pose, truth, source)) for pose in (start, T))
    if after > before:
        raise CheckFailed(
            f"from an init with error {before:.3g} it goes to {after:.3g}; start from init, T = init @ … or as it says"
        )
    return f"error {before:.3g} becomes {after:.3g}"


def bounded(method: Method) -> str:
    """Clouds of 2000 points take limited time and memory."""
    source, target, _ = easy(LARGE_OFFSET, key=10)
    reply = call_method(method, source, target)
    if reply["time_ms"] > 1e3 * SLOWEST_S:
        raise CheckFailed(
            f"{reply['time_ms'] / 1e3:.0f} s for {LARGE_OFFSET} points, over {SLOWEST_S:g} s; thin the clouds or iterate less"
        )
    if reply["peak_mb"] > MOST_MB:
        raise CheckFailed(
            f"{reply['peak_mb']:.0f} MB for {LARGE_OFFSET} points, over {MOST_MB:g} MB; thin the clouds or work in blocks"
        )
    return f"{reply['time_ms']:.0f} ms and {max(reply['peak_mb'], 0):.0f} MB for {LARGE_OFFSET} points"


def batches(method: Method) -> str:
    """Several pairs at once give what each gives alone, and a broken one among them spoils no other."""
    if not registry.is_batched(method):
        return "takes none"
    pairs = [easy(key=20 + k)[:2] for k in range(IN_BATCH)]
    pairs[1] = (_at(pairs[1][0], 7, np.nan), pairs[1][1])
    alone = [call_method(method, *pair) for pair in pairs]
    sources, targets = (list(clouds) for clouds in zip(*pairs, strict=True))
    reply = register_batch(method, "cpu", {"sources": sources, "targets": targets, "seed": 0})
    if reply["status"] != "ok":
        raise CheckFailed(
            f"register_batch: {reply['message']}; give a NoSolution in the place of the pair without an answer"
        )
    if len(reply["answers"]) != len(pairs):
        raise CheckFailed(
            f"register_batch gives {len(reply['answers'])} answers to {len(pairs)} pairs; give one for each"
        )
    for (source, _), usual, one in zip(pairs, alone, reply["answers"], strict=True):
        rigid_one = one["status"] == "ok" and pose_fault(one["pose"]) is None
        if rigid_one != (usual["status"] == "ok") or (rigid_one and error(one, usual["pose"], source) > 1e-3):
            raise CheckFailed(
                "register_batch gives another answer than register; it must differ in nothing but rounding"
            )
    return f"{len(pairs)} pairs at once are as each alone"


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
"""Name to check, in the order in which they are made."""


def run_check(method: Method, name: str) -> dict[str, Any]:
    """One check of a method that has been set up: `status` "ok" or "failed", `message` and `seconds`."""
    start = time.monotonic()
    try:
        status, message = "ok", CHECKS[name](method)
    except CheckFailed as complaint:
        status, message = "failed", str(complaint)
    return {"status": status, "message": message, "seconds": time.monotonic() - start}
