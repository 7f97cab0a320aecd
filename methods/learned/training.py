"""One training loop for every learned method: problems drawn on the fly, checkpoints that resume exactly, weights with a card.

A learned method takes part by a class method `network(config)` that returns a `Network`. Nothing here knows which.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, unknown
from common.files import atomic_path
from common.keys import digest
from common.plugins import classes_of, package_modules
from datasets.base import DataSet, Shape
from datasets.conditions import condition, labels_allowed
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from datasets.symmetry import members
from methods.core.base import Method
from methods.learned.weights import MALLOC, Card, read_tensors, save

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
HOLD_EVERY = 20
"""One in so many objects of a finite train split is held out for validation."""
_FAR = 1 << 40
"""Where validation starts in a split without end."""
_TURNS = 48
"""Steps that stand for a continuous axis of symmetry: none is further than 4° from the nearest."""


class Network(Protocol):
    """What the loop asks of a learned method's `torch.nn.Module`, beside being one.

    `config` is a dataclass that goes onto the weights' card and knows `least_points`, the smallest cloud it can take. If it
    has a true field `symmetric`, the loss is given every pose that maps the object onto itself, not the drawn one alone.
    """

    config: Any

    def prepare(self, source: Tensor, target: Tensor) -> Any:
        """What does not depend on the weights, in a form of its own, from clouds (B, N, 3); computed ahead of the step."""

    def estimate(self, prepared: Any, source: Tensor, target: Tensor) -> tuple[Any, ...]:
        """T_target_source (B, 4, 4) float64, then whatever else the loss needs."""

    def loss(self, estimate: Any, T_true: Tensor) -> Tensor:
        """The scalar to minimise, given the true T_target_source (B, 4, 4) float64, or (B, G, 4, 4) if `symmetric`."""


@dataclass(frozen=True)
class Settings:
    """Everything a training run depends on.

    `points` are trained in this order, an equal share of the steps each; validation uses the last. `schedule` is "onecycle"
    (AdamW up to `lr` and down again) or "plateau" (Adam, halved after 10 validations without a better loss). `start` is a
    weight file to begin with, in place of fresh weights; of a network that is a part of this one, it gives that part.
    """

    method: str
    preset: str = "cpu"
    dataset: str = "shapes40"
    condition: str = "noisy"
    sampler: str = "axis_angle"
    seed: int = 0
    steps: int = 3000
    batch: int = 16
    points: tuple[int, ...] = (512, 1024)
    lr: float = 2e-3
    schedule: str = "onecycle"
    clip: float = 1.0
    validate_every: int = 100
    validation: int = 64
    precision: str = "bfloat16"
    device: str = "cpu"
    threads: int = 1
    name: str = ""
    start: str = ""
    data: str = ""

    @property
    def title(self) -> str:
        """The name of the run's files."""
        usual = self.sampler == Settings.sampler
        method = self.method if usual else f"{self.method}_{self.sampler}"
        return self.name or f"{method}_{self.dataset}_{self.condition}"


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"steps": 20, "batch": 2, "points": (128,), "validate_every": 10, "validation": 4},
    "cpu": {},
    "paper": {
        "steps": 29_300,  # 100 epochs of ModelNet40's train split less the held-out part, in batches of 32
        "batch": 32,
        "points": (1024,),
        "lr": 1e-3,
        "schedule": "plateau",
        "validate_every": 293,
        "validation": 256,
    },
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench.py train`; those left out come from the preset."""
    parser.add_argument("method", help="a learned method, such as deepgmr")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="cpu", help="settings to start from")
    parser.add_argument("--dataset", default=Settings.dataset)
    parser.add_argument(
        "--condition", default=Settings.condition, help="`unseen` trains on the first half of the categories"
    )
    parser.add_argument("--data", default=None, help="folder with one folder a data set; default $BENCH_DATA or ./data")
    parser.add_argument("--sampler", help="of the true rotations")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int, help="pairs a step")
    parser.add_argument(
        "--points", type=int, nargs="+", help="sizes of clouds, each for an equal share of the steps, in turn"
    )
    parser.add_argument("--lr", type=float, help="highest learning rate")
    parser.add_argument("--validate-every", type=int, help="steps between validations")
    parser.add_argument("--precision", choices=["bfloat16", "float32"])
    parser.add_argument("--device", help="cpu or cuda")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--name", help="of the weight file and the checkpoint; default METHOD_DATASET_CONDITION")
    parser.add_argument(
        "--start",
        help="weight file to begin with, of this method or of one that is a part of it; default: fresh weights",
    )
    parser.add_argument(
        "--checkpoints", type=Path, default=Path("checkpoints"), help="folder; a run found there goes on"
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder for the finished weights")


def settings_of(options: argparse.Namespace) -> Settings:
    """Settings from parsed options over their preset.

    Raises:
        InputError: a count or rate that is not positive.
    """
    names = {f.name for f in fields(Settings)}
    given = {k: v for k, v in vars(options).items() if k in names and v is not None}
    if "points" in given:
        given["points"] = tuple(given["points"])
    made = Settings(**{**PRESETS[options.preset], **given})
    for name in ("steps", "batch", "lr", "validate_every", "threads"):
        if getattr(made, name) <= 0:
            raise InputError(f"--{name.replace('_', '-')} {getattr(made, name)}: must be above 0")
    if min(made.points) <= 0:
        raise InputError(f"--points {min(made.points)}: must be above 0")
    return made


def run(options: argparse.Namespace) -> None:
    """Train as `bench.py train` was asked to. Starts the process again if the allocator is not set for speed."""
    settings = settings_of(options)
    if sys.platform == "linux" and any(os.environ.get(k) != v for k, v in MALLOC.items()):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **MALLOC})
    train(settings, options.checkpoints / settings.title, options.weights / f"{settings.title}.safetensors")


def command_of(settings: Settings) -> str:
    """The command that repeats a run: what differs from its preset, with the data's folder as `$BENCH_DATA`."""
    words = [f"bench.py train {settings.method}"]
    usual = asdict(Settings(settings.method, **PRESETS[settings.preset]))
    told = {"dataset", "condition", "seed", "steps"}
    for name, value in asdict(settings).items():
        if name in told or (value != usual[name] and name not in ("data", "preset")):
            text = " ".join(map(str, value)) if isinstance(value, tuple) else value
            words.append(f"--{name.replace('_', '-')} {text}")
    return " ".join([*words, f"--preset {settings.preset}", *(["--data $BENCH_DATA"] if settings.data else [])])


def build(method: str) -> Any:
    """The freshly initialised network of a learned method, as a `torch.nn.Module` that is a `Network`."""
    known = [c for m in package_modules("methods") for c in classes_of(m, Method) if hasattr(c, "network")]
    found = {c.trained: c for c in known}  # type: ignore[attr-defined]
    if method not in found:
        raise unknown("learned method", method, found)
    return found[method].network()  # type: ignore[attr-defined]


class Part(DataSet):
    """A part of another data set's train split: what is trained on, or what is held out for validation."""

    def __init__(self, whole: DataSet, held_out: bool) -> None:
        super().__init__(whole.root)
        self.whole, self.held_out = whole, held_out
        self.categories, self.fixed_points = whole.categories, whole.fixed_points
        known = whole.labels("train")
        self.known = None if known is None else np.asarray(known)
        last_of_each = np.arange(0 if known is None else len(known)) % HOLD_EVERY == HOLD_EVERY - 1
        self.rows = np.flatnonzero(last_of_each == held_out)

    def labels(self, split: str) -> NDArray[np.integer[Any]] | None:
        return None if self.known is None else self.known[self.rows]

    def shape(self, split: str, index: int) -> Shape:
        far = _FAR * len(self.categories) if self.held_out else 0
        return self.whole.shape("train", index + far if self.known is None else int(self.rows[index]))


@dataclass(frozen=True)
class Batch:
    """Problems as tensors: prepared by the network, source and target (B, N, 3) float32, float64 truths.

    T_true is (B, 4, 4), or (B, G, 4, 4) with every truth of a symmetric object, the drawn one first and repeated up to G.
    """

    prepared: Any
    source: Tensor
    target: Tensor
    T_true: Tensor


def points_at(settings: Settings, step: int) -> int:
    """The N of a step: each of `points` for an equal share of the steps, in turn."""
    return settings.points[min(step * len(settings.points) // settings.steps, len(settings.points) - 1)]


def draw(part: Part, settings: Settings, points: int, first: int, count: int) -> list[Problem]:
    """Problems first … first + count - 1 of a part; a pure function of its arguments."""
    key = ProblemKey(settings.dataset, settings.condition, points, 0, settings.seed, "train", settings.sampler)
    return [make_problem(part, replace(key, index=first + i)) for i in range(count)]


def collate(network: Network, problems: list[Problem], device: str) -> Batch:
    """Problems of one size as a batch on the device."""
    import torch

    source, target = (torch.from_numpy(np.stack([getattr(p, s) for p in problems])) for s in ("source", "target"))
    truth = _every_truth if getattr(network.config, "symmetric", False) else _drawn_truth
    T_true = torch.from_numpy(truth(problems))
    source, target, T_true = source.to(device), target.to(device), T_true.to(device)
    with torch.no_grad():
        return Batch(network.prepare(source, target), source, target, T_true)


def _drawn_truth(problems: list[Problem]) -> NDArray[np.float64]:
    return np.stack([p.T_target_source for p in problems])


def _every_truth(problems: list[Problem]) -> NDArray[np.float64]:
    """T* A g A⁻¹ (B, G, 4, 4) of every rotation g that maps the object onto itself, A the source's pose from its frame.

    Raises:
        InputError: the symmetry of an object is not known.
    """
    sets = []
    for problem in problems:
        name = problem.tags.get("symmetry")
        if not name:
            raise InputError(
                f"{problem.key.dataset}: its objects' symmetries are not known; train on shapes40, which knows them"
            )
        g = members(name, _TURNS)
        turns = np.tile(np.eye(4), (len(g), 1, 1))
        turns[:, :3, :3] = g
        A = problem.source_pose
        sets.append(problem.T_target_source @ A @ turns @ np.linalg.inv(A))
    most = max(map(len, sets))
    return np.stack([np.concatenate([s, np.repeat(s[:1], most - len(s), axis=0)]) for s in sets])


def prefetch(make: Callable[[int], Batch], first: int, last: int, depth: int = 3) -> Iterator[Batch]:
    """make(first) … make(last - 1) in order, computed in a thread up to `depth` ahead, so that no step waits for its data.

    The thread keeps denormals: problems are then what they are elsewhere, and SciPy's trees do not end where some are flushed.
    """
    import torch

    with ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(False,)) as pool:
        waiting: deque[Future[Batch]] = deque()
        for step in range(first, last):
            waiting.append(pool.submit(make, step))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class Trainer:
    """The state of one run: network, optimiser, schedule, curve. `step` and `validate` move it on; `state` is all of it."""

    def __init__(self, settings: Settings) -> None:
        import torch

        torch.set_num_threads(settings.threads)
        torch.manual_seed(int(digest("train", settings.seed)[:8], 16))
        self.settings = settings
        self.network = build(settings.method)
        if settings.start:
            fresh = self.network.state_dict()
            self.network.load_state_dict({**fresh, **read_tensors(Path(settings.start), fresh, whole=False)})
        self.network.to(settings.device)
        plateau = settings.schedule == "plateau"
        make = torch.optim.Adam if plateau else torch.optim.AdamW
        self.optimiser = make(self.network.parameters(), lr=settings.lr)
        self.schedule: Any = (
            torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimiser, factor=0.5, patience=10)
            if plateau
            else torch.optim.lr_scheduler.OneCycleLR(self.optimiser, settings.lr, settings.steps + 1, pct_start=0.2)
        )
        self.done, self.seconds, self.recent = 0, 0.0, 0.0
        self.curve: list[dict[str, float]] = []

    def step(self, batch: Batch) -> float:
        """One step of gradient descent; returns the loss before it."""
        import torch

        self.network.train()
        kind = torch.device(self.settings.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            estimate = self.network.estimate(batch.prepared, batch.source, batch.target)
        loss = self.network.loss(estimate, batch.T_true)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip)
        self.optimiser.step()
        if self.settings.schedule == "onecycle":
            self.schedule.step()
        value = float(loss.detach())
        self.done += 1
        self.recent = value if self.done == 1 else 0.95 * self.recent + 0.05 * value
        return value

    def validate(self, batches: list[Batch]) -> dict[str, float]:
        """Loss, RMSE (mean over problems) and recall at 0.2 in float32; appended to the curve."""
        import torch

        self.network.eval()
        losses, errors = [], []
        with torch.no_grad():
            for batch in batches:
                estimate = self.network.estimate(batch.prepared, batch.source, batch.target)
                losses.append(float(self.network.loss(estimate, batch.T_true)))
                errors.append(rmse(estimate[0], batch.T_true, batch.source))
        error = torch.cat(errors)
        row = {
            "step": self.done,
            "seconds": round(self.seconds, 1),
            "lr": self.optimiser.param_groups[0]["lr"],
            "train_loss": self.recent,
            "validation_loss": float(np.mean(losses)),
            "validation_rmse": float(error.mean()),
            "validation_recall": float((error < 0.2).double().mean()),
        }
        if self.settings.schedule == "plateau":
            self.schedule.step(row["validation_loss"])
        self.curve.append(row)
        return row

    def state(self) -> dict[str, Any]:
        """Everything a run needs to go on as if it had not stopped; draws are keyed by the step."""
        return {
            "settings": command_of(self.settings),
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "done": self.done,
            "seconds": self.seconds,
            "recent": self.recent,
            "curve": self.curve,
        }

    def restore(self, state: dict[str, Any], file: Path) -> None:
        """Go on from a state.

        Raises:
            InputError: the state is of a run with other settings.
        """
        if state["settings"] != command_of(self.settings):
            raise InputError(
                f"{file}: field 'settings' is of `{state['settings']}`; give the same options or another --name"
            )
        for part in ("network", "optimiser", "schedule"):
            getattr(self, part).load_state_dict(state[part])
        self.done, self.seconds, self.recent = state["done"], state["seconds"], state["recent"]
        self.curve = state["curve"]


def rmse(T: Tensor, T_true: Tensor, points: Tensor) -> Tensor:
    """sqrt(mean ‖T p - T* p‖²) (B,) over points (B, N, 3), for poses (B, 4, 4); the least of truths (B, G, 4, 4)."""
    from methods.nn.gmm import point_loss

    return point_loss(T, T_true if T_true.ndim == 4 else T_true[:, None], points).amin(dim=1)


def train(settings: Settings, folder: Path, weights: Path, save_every_s: float = 60.0) -> Path:
    """Train to the end, from where the run in `folder` was stopped if there is one, and write the weights.

    Args:
        settings: the run.
        folder: for checkpoint.pt, curve.csv and curve.png.
        weights: the safetensors file to write when done.
        save_every_s: seconds between checkpoints.
    """
    whole = DataRegistry.at(settings.data or None).spec(settings.dataset).objects()
    trainer = Trainer(settings)
    _check_points(settings, whole, trainer.network.config.least_points)
    checkpoint = folder / "checkpoint.pt"
    _resume(trainer, checkpoint)
    held_out = _validation_batches(trainer, whole)
    _loop(trainer, Part(whole, held_out=False), held_out, checkpoint, save_every_s)
    plot_curve(trainer.curve, settings, folder / "curve.png")
    card = Card(settings.method, asdict(trainer.network.config), provenance(trainer, whole))
    save(weights, trainer.network.state_dict(), card)
    print(f"weights: {weights}", flush=True)
    return weights


def _check_points(settings: Settings, whole: DataSet, least: int) -> None:
    """Refuse sizes that the features or the objects cannot have."""
    if min(settings.points) < least:
        raise InputError(f"--points {min(settings.points)}: the features of {settings.method} need {least} or more")
    most = whole.fixed_points
    needed = condition(settings.condition).independent * max(settings.points)
    if most is not None and needed > most:
        raise InputError(
            f"--points {max(settings.points)}: {settings.condition} takes {needed} points of an object, {settings.dataset} "
            f"has {most}; give fewer"
        )


def _resume(trainer: Trainer, checkpoint: Path) -> None:
    import torch

    if checkpoint.exists():
        trainer.restore(torch.load(checkpoint, weights_only=True, map_location=trainer.settings.device), checkpoint)
        print(f"resumed {checkpoint} at step {trainer.done}", flush=True)


def _validation_batches(trainer: Trainer, whole: DataSet) -> list[Batch]:
    settings = trainer.settings
    problems = draw(Part(whole, held_out=True), settings, settings.points[-1], 0, settings.validation)
    cut = [problems[i : i + 8] for i in range(0, len(problems), 8)]
    return [collate(trainer.network, part, settings.device) for part in cut]


def _loop(trainer: Trainer, part: Part, held_out: list[Batch], checkpoint: Path, save_every_s: float) -> None:
    import torch

    settings = trainer.settings
    torch.set_flush_denormal(True)  # a matmul full of denormals takes a hundred times as long

    def make(step: int) -> Batch:
        problems = draw(part, settings, points_at(settings, step), step * settings.batch, settings.batch)
        return collate(trainer.network, problems, settings.device)

    start, before, saved = time.monotonic(), trainer.seconds, time.monotonic()
    for batch in prefetch(make, trainer.done, settings.steps):
        trainer.step(batch)
        trainer.seconds = before + time.monotonic() - start
        ended = trainer.done == settings.steps
        if ended or trainer.done % settings.validate_every == 0:
            _report(trainer, trainer.validate(held_out))
            write_curve(trainer.curve, checkpoint.with_name("curve.csv"))
        if time.monotonic() - saved > save_every_s or ended:
            _save_checkpoint(trainer, checkpoint)
            saved = time.monotonic()


def _save_checkpoint(trainer: Trainer, checkpoint: Path) -> None:
    import torch

    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(checkpoint) as temporary:
        torch.save(trainer.state(), temporary)


def _report(trainer: Trainer, row: dict[str, float]) -> None:
    settings = trainer.settings
    left = trainer.seconds / trainer.done * (settings.steps - trainer.done) / 60
    print(
        f"{settings.title}  step {trainer.done}/{settings.steps}  N {points_at(settings, trainer.done - 1)}  "
        f"{trainer.seconds:.0f} s  loss {row['train_loss']:.4f}  validation loss {row['validation_loss']:.4f} "
        f"rmse {row['validation_rmse']:.4f} recall {row['validation_recall']:.3f}  {left:.0f} min left",
        flush=True,
    )


def provenance(trainer: Trainer, whole: DataSet) -> dict[str, Any]:
    """Where the weights come from, for their card: data, categories, command, seconds, validation."""
    settings = trainer.settings
    labels = labels_allowed(condition(settings.condition), "train", len(whole.categories))
    kinds = range(len(whole.categories)) if labels is None else labels
    told = ("dataset", "condition", "points", "sampler", "seed", "steps", "batch", "precision")
    return {
        **{name: getattr(settings, name) for name in told},
        "dataset_categories": list(whole.categories),
        "categories": [whole.categories[i] for i in kinds],
        "command": command_of(settings),
        "seconds": round(trainer.seconds),
        "validation": trainer.curve[-1],
    }


def write_curve(curve: list[dict[str, float]], file: Path) -> None:
    """The validation curve as CSV: step, seconds, lr, train_loss, validation_loss, validation_rmse, validation_recall."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, curve[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" for k, v in row.items()} for row in curve)


def plot_curve(curve: list[dict[str, float]], settings: Settings, file: Path) -> None:
    """Losses and validation RMSE against the step, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = [row["step"] for row in curve]
    for name, label in (("train_loss", "train"), ("validation_loss", "validation")):
        left.semilogy(steps, [row[name] for row in curve], label=label)
    right.semilogy(steps, [row["validation_rmse"] for row in curve], color="tab:orange", label="mean RMSE")
    right.semilogy(
        steps, [max(1 - row["validation_recall"], 1e-3) for row in curve], color="tab:red", label="1 - recall@0.2"
    )
    for axes, title in ((left, "loss"), (right, f"held-out training shapes, N = {settings.points[-1]}")):
        axes.set(xlabel="step", title=title)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(f"{settings.title}: {settings.steps} steps of {settings.batch} pairs")
    figure.savefig(file, dpi=110)


def main() -> None:
    """`python -m methods.learned.training METHOD …`: the same as `bench.py train`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_arguments(parser)
    try:
        run(parser.parse_args())
    except InputError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
