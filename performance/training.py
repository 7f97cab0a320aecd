"""Time a training step of DeepGMR beside a plain one: batches of 32 pairs of 1 024 points, the paper's layer sizes, all cores.

    python -m performance.training [STEPS]

The plain network (`plain_deepgmr.py`) computes in float32 with 1 x 1 convolutions on concat(local, global); features,
losses and the optimiser are the same. Steps alternate in one process; times are medians, memory is the peak of the
whole process. The training loop of `bench.py train` runs first, with problems and features generated in a thread beside
the steps.
"""

from __future__ import annotations

import os
import resource
import sys

from methods.learned.weights import MALLOC, WEIGHTS_FOLDER

if any(os.environ.get(name) != value for name, value in MALLOC.items()):  # read by the C library when a process starts
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **MALLOC})

import time
from collections.abc import Callable

import numpy as np
import torch

from datasets.registry import DataRegistry
from methods.learned.training import Trainer
from methods.learned.training_config import Settings
from methods.learned.training_data import Batch, Part, collate, generate, prefetch
from methods.nn.gmr import Estimate
from methods.nn.pointnet import PointLayer
from performance.plain_deepgmr import PlainDeepGMR

SETTINGS = Settings("deepgmr", batch=32, points=(1024,), threads=os.cpu_count() or 1)


class PlainTrainer(Trainer):
    """The same loop around the plain network, in float32."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.plain = PlainDeepGMR(WEIGHTS_FOLDER / "deepgmr_shapes40_noisy.safetensors")
        self.layers = torch.nn.ModuleList([self.plain.local, self.plain.head]).train()
        self.optimiser = torch.optim.AdamW(self.layers.parameters(), lr=settings.lr)

    def step(self, batch: Batch) -> float:
        """Run one step; see `Trainer.step`."""
        local = self.plain.local(batch.prepared.transpose(1, 2))
        whole = local.max(dim=2, keepdim=True).values.expand_as(local)
        gamma = self.plain.head(torch.cat([local, whole], dim=1)).transpose(1, 2).softmax(dim=2)
        half = len(batch.source)
        poses = self.network.poses((gamma[:half], gamma[half:]), (batch.source, batch.target))
        loss = self.network.loss(Estimate(*poses, batch.source, batch.target), batch.T_true)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.layers.parameters(), self.settings.clip)
        self.optimiser.step()
        return float(loss.detach())


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def products(trainer: Trainer) -> float:
    """Return the seconds of a step's products in bfloat16 alone: each point-wise layer's outputs, and its two gradients."""
    rows, spent = 2 * SETTINGS.batch * SETTINGS.points[0], 0.0
    for layer in (m for m in trainer.network.modules() if isinstance(m, PointLayer)):
        weight = layer.linear.weight.detach().bfloat16()
        x, y = (torch.randn(rows, size, dtype=torch.bfloat16) for size in weight.T.shape)
        spent += seconds(lambda x=x, w=weight: torch.mm(x, w.T)) + seconds(lambda y=y, x=x: torch.mm(y.T, x))
        if weight.shape[1] != trainer.network.config.inputs:  # features have no gradient
            spent += seconds(lambda y=y, w=weight: torch.mm(y, w))
    return spent


def peak_gb() -> float:
    """Return the peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(steps: int) -> None:
    """Print the medians of steps, their ratio, and the loop's pace."""
    torch.set_flush_denormal(True)
    part = Part(DataRegistry.at().spec("shapes40").objects(), held_out=False)
    ours = Trainer(SETTINGS)

    def draw_batch(step: int) -> Batch:
        problems = generate(part, SETTINGS, SETTINGS.points[0], step * SETTINGS.batch, SETTINGS.batch)
        return collate(ours.network, problems, SETTINGS.device)

    load_average = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{SETTINGS.threads} threads, {steps} steps, load average {load_average}", flush=True)
    start = time.perf_counter()
    ours.step(draw_batch(0))
    begun = time.perf_counter()
    for batch in prefetch(draw_batch, 1, steps + 1):
        ours.step(batch)
    whole = (time.perf_counter() - begun) / steps
    print(f"first step {begun - start:.2f} s; then {whole:.2f} s per step including problem generation (limit 1.0 s)")
    print(f"peak memory of the process {peak_gb():.1f} GB (limit 3 GB)", flush=True)
    least = np.median([products(ours) for _ in range(steps)])
    print(f"the products alone take {least:.2f} s", flush=True)
    plain, held = PlainTrainer(SETTINGS), draw_batch(0)
    both = [(seconds(lambda: ours.step(held)), seconds(lambda: plain.step(held))) for _ in range(steps + 1)][1:]
    ms = np.median(both, axis=0)
    ratio = np.median([p / o for o, p in both])
    print(
        f"the step alone: ours {ms[0]:.2f} s, plain {ms[1]:.2f} s, {ratio:.1f} x; with the plain one {peak_gb():.1f} GB"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
