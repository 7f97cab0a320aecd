"""Measure on a GPU what only a GPU can tell, in under four minutes, and write `gpu.json` and `gpu.md` to a folder.

    python -m performance.gpu [DEVICE] [--parts facts parity …] [--out FOLDER]

Parts: `facts` of the device; `parity`, largest difference of a pose from the CPU's in float32; `waits`, how often the host
waits in one call; `kernels` of a call and the longest of them; `latency` of one pair, right after other calls and after a pause
in which clocks fall, and the throughput of batches; `products`, the time of the network's matrix products alone, below which
no latency can be; `training`, a step and the preparation of its batch; `limits`, a call beyond the GPU's memory and the one after
it; `harness`, a run of `bench.py`. Times end when the device has finished. On `cpu` clouds are small: a test of this script.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.isolation.protocol import RegisterRequest
from bench.isolation.server import register
from common.devices import AUTO, identity, is_gpu, resolve_flag
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.base import Method
from methods.core.registry import MethodRegistry
from methods.learned.training import Trainer
from methods.learned.training_config import Settings
from methods.learned.training_data import Part, collate, generate
from methods.nn.inference import FoldedLayer

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("deepgmr", "deepgmr_untrained", "deepgmr_resampled", "dcp_small", "prnet_small", "pointnetlk_small")
BATCH, BATCH_POINTS, TOO_MANY_POINTS = 32, 1024, 120_000
PAUSE_S = 0.1
"""Pause in which the clocks of a GPU fall."""
TOP_KERNELS = 8
"""Kernels that are listed, the longest first."""


@dataclass(frozen=True)
class Setting:
    """The device, the numbers of points and the timed calls each; few on the CPU, where only the script is tested."""

    device: str

    @property
    def points(self) -> tuple[int, ...]:
        """Points per cloud."""
        return (1000, 5000) if is_gpu(self.device) else (200,)

    @property
    def rounds(self) -> int:
        """Timed calls."""
        return 20 if is_gpu(self.device) else 1

    def wait(self) -> None:
        """Wait until the device has finished."""
        if is_gpu(self.device):
            torch.cuda.synchronize(self.device)


def problems(points: int, count: int = 1) -> list[Problem]:
    """Return noisy problems of shapes40's test split, of different categories."""
    objects = DataRegistry.at().spec("shapes40").objects()
    return [make_problem(objects, ProblemKey("shapes40", "noisy", points, 41 * i)) for i in range(count)]


def ready(name: str, device: str) -> Method:
    """Return a method that is set up on a device."""
    method = MethodRegistry().spec(name).build()
    method.begin(0)
    method.setup(device, 0, "shapes40")
    return method


def call_times(setting: Setting, call: Callable[[], object], pause_s: float = 0.0) -> dict[str, float]:
    """Return median, least and 95 % quantile in ms of a call after a first one, each after a pause."""
    call()
    times = []
    for _ in range(setting.rounds):
        time.sleep(pause_s)
        setting.wait()
        begin = time.perf_counter()
        call()
        setting.wait()
        times.append(1e3 * (time.perf_counter() - begin))
    return {"median": float(np.median(times)), "least": min(times), "p95": float(np.percentile(times, 95))}


def facts(setting: Setting) -> dict[str, Any]:
    """Return what identifies device and torch."""
    result: dict[str, Any] = {"device": setting.device, "torch": torch.__version__, **identity(setting.device)}
    if is_gpu(setting.device):
        properties = torch.cuda.get_device_properties(setting.device)
        result |= {"capability": f"{properties.major}.{properties.minor}", "GB": properties.total_memory / 2**30}
        method = ready("deepgmr", setting.device)
        result |= {name: method.scratch.notes[name] for name in ("features", "precision")}
    return result


def parity(setting: Setting) -> dict[str, float]:
    """Return the largest difference of an element of a pose from that of the CPU by method and points."""
    differences = {}
    for name in METHODS:
        exact = f"{name}[precision=float32]" if name.startswith("deepgmr") else name
        on_cpu, on_device = ready(exact, "cpu"), ready(exact, setting.device)
        for points in setting.points:
            pair = problems(points)[0]
            poses = [method.register(pair.source, pair.target) for method in (on_cpu, on_device)]
            differences[f"{name} {points}"] = float(np.abs(poses[0] - poses[1]).max())
    return differences


def waits(setting: Setting) -> dict[str, int]:
    """Return how often torch reports that the host waits during one call, by method; 0 on the CPU."""
    counts = {}
    for name in METHODS:
        method, pair = ready(name, setting.device), problems(setting.points[0])[0]
        method.register(pair.source, pair.target)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if is_gpu(setting.device):
                torch.cuda.set_sync_debug_mode("warn")
            try:
                method.register(pair.source, pair.target)
            finally:
                if is_gpu(setting.device):
                    torch.cuda.set_sync_debug_mode("default")
        counts[name] = sum("synchroniz" in str(warning.message) for warning in seen)
    return counts


def kernels(setting: Setting) -> dict[str, Any]:
    """Return number and µs of the kernels of one call of DeepGMR, and names, µs and counts of the longest, by points."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = is_gpu(setting.device)
    result = {}
    for points in setting.points:
        method, pair = ready("deepgmr", setting.device), problems(points)[0]
        method.register(pair.source, pair.target)
        with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as profiler:
            method.register(pair.source, pair.target)
            setting.wait()
        events = profiler.key_averages()
        taken = [(e.key[:80], e.self_device_time_total if on_gpu else e.self_cpu_time_total, e.count) for e in events]
        own = [e for e in events if on_gpu and str(e.device_type).endswith("CUDA")]
        result[str(points)] = {
            "kernels": sum(e.count for e in own),
            "µs of kernels": sum(e.self_device_time_total for e in own),
            "longest": sorted(taken, key=lambda e: -e[1])[:TOP_KERNELS],
        }
    return result


def latency(setting: Setting) -> dict[str, Any]:
    """Return the times of one pair, busy and idle, by method and points, and the pairs per second of batches of DeepGMR."""
    result: dict[str, Any] = {}
    for name in METHODS if is_gpu(setting.device) else METHODS[:1]:
        method = ready(name, setting.device)
        for points in setting.points:
            pair = problems(points)[0]

            def call(method: Method = method, pair: Problem = pair) -> object:
                return method.register(pair.source, pair.target)

            result[f"{name} {points}"] = {"busy": call_times(setting, call), "idle": call_times(setting, call, PAUSE_S)}
    count = BATCH if is_gpu(setting.device) else 2
    method, batch = ready("deepgmr", setting.device), problems(min(BATCH_POINTS, setting.points[-1]), count)
    sources, targets = [p.source for p in batch], [p.target for p in batch]
    took = call_times(setting, lambda: method.register_batch(sources, targets))
    return result | {"pairs per second": 1e3 * count / took["median"]}


def products(setting: Setting) -> dict[str, float]:
    """Return the ms of the matrix products of DeepGMR's network alone, one pair, by points."""
    backbone: Any = ready("deepgmr[precision=bfloat16]", setting.device).state["net"].backbone
    weights = [layer.weight for layer in backbone.modules() if isinstance(layer, FoldedLayer)]
    result = {}
    for points in setting.points:
        inputs = [torch.zeros(2 * points, w.shape[1], dtype=w.dtype, device=w.device) for w in weights]

        def multiply(inputs: list[torch.Tensor] = inputs) -> None:
            for x, weight in zip(inputs, weights, strict=True):
                torch.nn.functional.linear(x, weight)

        result[str(points)] = call_times(setting, multiply)["median"]
    return result


def training(setting: Setting) -> dict[str, float]:
    """Return the ms of a training step of DeepGMR and of the preparation of its batch, and the loss after the steps."""
    count, points = (BATCH, BATCH_POINTS) if is_gpu(setting.device) else (2, 64)
    settings = Settings("deepgmr", batch=count, points=(points,), device=setting.device)
    trainer, objects = Trainer(settings), DataRegistry.at().spec("shapes40").objects()
    drawn = generate(Part(objects, held_out=False), settings, points, 0, count)
    batch = collate(trainer.network, drawn, setting.device)
    return {
        "preparation": call_times(setting, lambda: collate(trainer.network, drawn, setting.device))["median"],
        "step": call_times(setting, lambda: trainer.step(batch))["median"],
        "loss": trainer.recent,
    }


def limits(setting: Setting) -> dict[str, Any]:
    """Return how a call beyond a small share of the GPU's memory ends, and the call after it; nothing on the CPU."""
    if not is_gpu(setting.device):
        return {}
    method, pair = ready("deepgmr", setting.device), problems(1000)[0]
    large = np.random.default_rng(0).normal(size=(TOO_MANY_POINTS, 3)).astype(np.float32)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.002, setting.device)
    try:
        beyond = register(method, setting.device, RegisterRequest([large], [large], 0))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, setting.device)
    after = register(method, setting.device, RegisterRequest([pair.source], [pair.target], 0))
    return {"beyond the memory": beyond.status, "after it": after.status, "MB of one pair": after.gpu_memory_mb}


def harness(setting: Setting) -> dict[str, Any]:
    """Return exit code, last lines, timing table and GPU of a small run on the device."""
    methods = ["deepgmr", "deepgmr+icp", "hgmr", "icp", "identity"] if is_gpu(setting.device) else ["pca", "deepgmr"]
    command = [sys.executable, str(ROOT / "bench.py"), "--methods", *methods, "--device", setting.device]
    command += ["--problems", "2", "--conditions", "noisy", "--points", str(setting.points[0]), "--jobs", "2"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, "--timing-rounds", "2", "--out", "gpu"], cwd=folder, capture_output=True, text=True, check=False
        )
        run = Path(folder) / "results" / "gpu"
        latency_table = (run / "timing.csv").read_text().splitlines() if done.returncode == 0 else []
        gpu = json.loads((run / "run.json").read_text())["environment"].get("gpu", {}) if latency_table else {}
    return {
        "exit code": done.returncode,
        "last lines": (done.stdout + done.stderr).splitlines()[-5:],
        "timing": latency_table,
        "gpu": gpu,
    }


PARTS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    part.__name__: part for part in (facts, parity, waits, kernels, latency, products, training, limits, harness)
}


def run_parts(setting: Setting, parts: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the results of the parts with the seconds of each, and what failed; a part that fails does not end the others."""
    results: dict[str, Any] = {}
    faults = []
    for name in parts:
        begin = time.monotonic()
        try:
            results[name] = PARTS[name](setting)
        except Exception as error:
            results[name] = {"fault": f"{type(error).__name__}: {error}".split("\n")[0]}
            faults.append(f"{name}: {results[name]['fault']}")
        results[name]["seconds"] = round(time.monotonic() - begin, 1)
        print(f"{name}: {results[name]['seconds']} s", file=sys.stderr, flush=True)
    return results, faults


def latency_table(results: dict[str, Any]) -> str:
    """Return a Markdown table of the latencies, with the products' time beside those of DeepGMR, and facts below it."""
    lines = ["| method and points | busy (ms) | idle (ms) | products alone (ms) |", "|---|---|---|---|"]
    for name, times in results.get("latency", {}).items():
        if isinstance(times, dict):
            method, points = name.split()
            alone = results.get("products", {}).get(points, np.nan) if method == "deepgmr" else np.nan
            cells = [f"{value:.2f}" if np.isfinite(value) else "–" for value in (alone,)]
            busy, idle = (f"{times[state]['median']:.2f}" for state in ("busy", "idle"))
            lines.append(f"| `{method}`, {points} | {busy} | {idle} | {cells[0]} |")
    known = {**results.get("facts", {}), "pairs per second": results.get("latency", {}).get("pairs per second")}
    return "\n".join([*lines, "", ", ".join(f"{name} {value}" for name, value in known.items()) + "."]) + "\n"


def main() -> int:
    """Measure, write the files and return 1 if a part failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("device", nargs="?", type=resolve_flag, default=AUTO, help="cpu, cuda, cuda:NUMBER or auto")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--out", type=Path, default=Path("build") / "gpu", help="folder of gpu.json and gpu.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.monotonic()
    results, faults = run_parts(Setting(given.device), given.parts)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "gpu.json").write_text(json.dumps(results, indent=1, default=str) + "\n")
    (given.out / "gpu.md").write_text(latency_table(results))
    print(latency_table(results), *faults, f"{time.monotonic() - begin:.0f} s, {given.out / 'gpu.json'}", sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
