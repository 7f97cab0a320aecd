"""Learned methods on an emulated GPU: its launches, how often the host waits, and poses equal to those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.registry import DataRegistry
from methods.base import Method
from methods.core.registry import MethodRegistry
from methods.learned.training import Trainer
from methods.learned.training_config import Settings
from methods.learned.training_data import Part, collate, generate
from methods.native import rri_cuda
from tests.catalog import build
from tests.emulated_gpu import MEMORY, emulated_gpu
from tests.methods.clouds import blob, moved, pose
from tests.methods.native.rri_cuda_on_host import KernelOnHost

LIMITS = {
    "deepgmr[precision=float32]": (80, 2),
    "deepgmr_untrained": (198, 2),
    "deepgmr_resampled[precision=float32]": (48, 2),
    "dcp_small": (176, 4),
    "prnet_small": (609, 8),
    "pointnetlk_small": (609, 2),
}
"""Launches and waits of one call of each network with weights; its variants differ in the weights only.

They may only fall: a smaller count belongs here.
"""
BATCH_LAUNCHES, KERNEL_LAUNCHES, WAITS = 82, 35, 2
"""Launches of DeepGMR for any batch, by torch alone and with the compiled kernel, and waits. They may only fall, too."""


TRAINING_WAITS = {"deepgmr": 8, "deepgmr_resampled": 11}
"""Waits for preparation and loss of a batch, of any size. They may only fall, too."""


def ready(name: str, device: str) -> Method:
    method = build(name)
    method.begin(0)
    method.setup(device, 0, "shapes40")
    return method


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the features be computed by the compiled kernel, which counts as one launch."""
    monkeypatch.setattr(rri_cuda, "kernel", lambda device, k: KernelOnHost(k))


@pytest.mark.parametrize("name", LIMITS)
def test_poses_are_those_of_the_cpu_within_the_limits(name: str) -> None:
    source, target = blob(300, 1), moved(pose(1), blob(300, 1))
    with emulated_gpu() as counts:
        on_cpu, on_gpu = ready(name, "cpu"), ready(name, "cuda:0")
        counts.clear()
        result = on_gpu.register(source, target)
        counted = sum(counts.launches.values()), sum(counts.waits.values())
    np.testing.assert_allclose(result, on_cpu.register(source, target), atol=1e-5)
    assert counted == LIMITS[name], f"{counts.launches} {counts.waits}"


def test_every_other_method_computes_on_the_cpu() -> None:
    on_gpu = {name for name, entry in MethodRegistry().entries.items() if "cuda" in entry.facts.devices}
    learned = {name for name, entry in MethodRegistry().entries.items() if entry.facts.kind == "learned"}
    assert on_gpu - learned <= {"deepgmr_untrained", *(name for name in on_gpu if name.startswith("pointnetlk"))}
    assert {name.split("[")[0] for name in LIMITS} <= on_gpu and "hgmr" not in on_gpu


@pytest.mark.parametrize("points", [1000, 5000])
@pytest.mark.parametrize("pairs", [1, 32])
def test_a_batch_costs_as_many_launches_as_a_pair(points: int, pairs: int) -> None:
    """Nothing has N x N x k numbers: the largest tensors are the distances and the widest layer."""
    cloud = blob(points)
    with emulated_gpu(shapes_only=True) as counts:
        method = ready("deepgmr", "cuda:0")
        counts.clear()
        method.register_batch([cloud] * pairs, [cloud] * pairs)
    assert sum(counts.launches.values()) == BATCH_LAUNCHES <= 100, counts.launches
    assert sum(counts.waits.values()) == WAITS, counts.waits
    size, _ = counts.largest
    assert size <= max(4 * 2 * pairs * points**2, 4 * 2 * pairs * points * 1024) <= MEMORY / 4


@pytest.mark.parametrize("points", [1000, 5000])
@pytest.mark.parametrize("pairs", [1, 32])
def test_the_compiled_kernel_needs_fewer_launches_and_no_distances(kernel: None, points: int, pairs: int) -> None:
    cloud = blob(points)
    with emulated_gpu(shapes_only=True) as counts:
        method = ready("deepgmr", "cuda:0")
        counts.clear()
        method.register_batch([cloud] * pairs, [cloud] * pairs)
    assert sum(counts.launches.values()) == KERNEL_LAUNCHES <= 60, counts.launches
    assert sum(counts.waits.values()) == WAITS and counts.launches["rri"] == 1
    assert counts.largest[0] <= 4 * 2 * pairs * points * 1024


@pytest.mark.parametrize(("n", "m"), [(200, 200), (200, 150)])
def test_the_compiled_kernel_gives_the_poses_of_the_cpu(kernel: None, n: int, m: int) -> None:
    """Also for clouds of two sizes, and beside a pair that is not finite."""
    sources = [blob(n, seed) for seed in range(3)]
    targets = [moved(pose(seed), blob(n, seed))[:m] for seed in range(3)]
    sources[1] = np.full_like(sources[1], np.nan)
    with emulated_gpu() as counts:
        on_cpu, on_gpu = (ready("deepgmr[precision=float32]", device) for device in ("cpu", "cuda:0"))
        counts.clear()
        results = on_gpu.register_batch(sources, targets)
    assert sum(counts.waits.values()) == WAITS, counts.waits
    for ours, theirs in zip(results, on_cpu.register_batch(sources, targets), strict=True):
        assert str(ours) == str(theirs) if isinstance(theirs, Exception) else np.allclose(ours, theirs, atol=1e-4)


def test_the_gaussians_are_those_of_the_cpu() -> None:
    source, target = blob(200, 1), blob(150, 2)
    with emulated_gpu():
        ours = ready("deepgmr[precision=float32]", "cuda:0").gaussians(source, target)
    theirs = ready("deepgmr[precision=float32]", "cpu").gaussians(source, target)
    for first, second in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(first.means, second.means, atol=1e-4)
        np.testing.assert_allclose(first.shares, second.shares, atol=1e-4)


@pytest.mark.parametrize("method", ["deepgmr", "deepgmr_resampled"])
def test_waits_of_training_do_not_grow_with_the_batch(method: str) -> None:
    """Preparation of a batch, and loss; the emulation has no backward pass."""
    objects = DataRegistry.at().spec("shapes40").objects()
    counted = []
    for size in (2, 4):
        settings = Settings(method, batch=size, points=(64,), device="cuda:0", precision="float32")
        made = generate(Part(objects, held_out=False), settings, 64, 0, size)
        with emulated_gpu() as counts:
            network = Trainer(settings).network
            counts.clear()
            batch = collate(network, made, "cuda:0")
            loss = network.loss(network.estimate(batch.prepared, batch.source, batch.target), batch.T_true)
        assert loss.device.type == "cuda" and loss.ndim == 0
        counted.append(sum(counts.waits.values()))
    assert counted[0] == counted[1] == TRAINING_WAITS[method]
