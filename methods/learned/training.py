"""Training loop of every learned method: generated problems, checkpoints that resume exactly, weights with a card.

A class takes part by `Trained.network`, which builds its `Network`.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.errors import InputError, unknown
from common.files import atomic_path
from common.keys import digest
from common.plugins import classes_of, package_modules
from datasets.base import PairSet
from datasets.conditions import condition
from datasets.registry import AnySet, DataRegistry
from methods.learned import descriptor
from methods.learned.trained import Trained
from methods.learned.training_config import Settings, add_arguments, command_of, settings_of
from methods.learned.training_curve import Curve, draw_curve, provenance, write_curve
from methods.learned.training_data import HOLD_EVERY, Batch, Part, collate, generate, part_of, points_at, prefetch
from methods.learned.weights import MALLOC, Card, read_tensors, save

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

RISING_SHARE = 0.2
"""Share of the steps in which the learning rate of "onecycle" rises; at least one step."""
MIN_SCHEDULE = 4
"""Fewest steps of that schedule: with fewer, its rise or its fall has no step."""


def run(options: argparse.Namespace) -> None:
    """Run `bench.py train`; restart the process if the allocator's environment is not set."""
    settings = settings_of(options)
    if sys.platform == "linux" and any(os.environ.get(k) != v for k, v in MALLOC.items()):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **MALLOC})
    train(settings, options.checkpoints / settings.title, options.weights / f"{settings.title}.safetensors")


def build_network(method: str) -> Any:
    """Build the freshly initialised network of a learned method: a `torch.nn.Module` that is a `Network`."""
    modules = (*package_modules("methods"), descriptor)
    classes = {cls.trained: cls for module in modules for cls in classes_of(module, Trained)}
    if method not in classes:
        raise unknown("learned method", method, classes)
    return classes[method].network()


def uncompiled(optimiser: type[Optimizer]) -> Any:
    """Return a class of optimisers without what `torch.compile` needs: importing that takes seconds, and nothing is compiled."""
    import torch

    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict", "step")
    plain = {name: inspect.unwrap(getattr(optimiser, name)) for name in names}
    plain["step"] = torch.no_grad()(plain["step"])
    return type(optimiser.__name__, (optimiser,), plain)


class Trainer:
    """State of a training run: network, optimiser, schedule and curve.

    Attributes:
        done: steps done.
        seconds: time spent in the loop.
        recent: running mean of the training loss.
        curve: results of the validations.
    """

    def __init__(self, settings: Settings) -> None:
        import torch

        torch.set_num_threads(settings.threads)
        torch.manual_seed(int(digest("train", settings.seed)[:8], 16))
        self.settings = settings
        self.network = build_network(settings.method)
        if settings.start:
            fresh = self.network.state_dict()
            self.network.load_state_dict({**fresh, **read_tensors(Path(settings.start), fresh, whole=False)})
        self.network.to(settings.device)
        plateau = settings.schedule == "plateau"
        optimiser = uncompiled(torch.optim.Adam if plateau else torch.optim.AdamW)
        self.optimiser = optimiser(self.network.parameters(), lr=settings.lr)
        total = max(settings.steps + 1, MIN_SCHEDULE)
        self.schedule: Any = (
            torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimiser, factor=0.5, patience=10)
            if plateau
            else torch.optim.lr_scheduler.OneCycleLR(
                self.optimiser, settings.lr, total, pct_start=max(RISING_SHARE, 2 / total)
            )
        )
        self.done, self.seconds, self.recent = 0, 0.0, 0.0
        self.curve: Curve = []

    def step(self, batch: Batch) -> float:
        """Do one step of gradient descent; return the loss before it."""
        import torch

        self.network.train()
        device_type = torch.device(self.settings.device).type
        with torch.autocast(device_type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
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
        """Compute loss, RMSE (mean over problems) and recall at 0.2 in float32; append them to the curve.

        Without batches, those of the validation are NaN, and the training loss takes the place of the validation loss.
        """
        import torch

        self.network.eval()
        losses, errors = [], []
        with torch.no_grad():
            for batch in batches:
                estimate = self.network.estimate(batch.prepared, batch.source, batch.target)
                losses.append(float(self.network.loss(estimate, batch.T_true)))
                errors.append(rmse(estimate[0], batch.T_true, batch.source))
        error = torch.cat(errors) if errors else torch.full((1,), float("nan"))
        row = {
            "step": self.done,
            "seconds": round(self.seconds, 1),
            "lr": self.optimiser.param_groups[0]["lr"],
            "train_loss": self.recent,
            "validation_loss": float(np.mean(losses)) if losses else float("nan"),
            "validation_rmse": float(error.mean()),
            "validation_recall": float((error < 0.2).double().mean()) if losses else float("nan"),
        }
        if self.settings.schedule == "plateau":
            self.schedule.step(row["validation_loss"] if losses else self.recent)
        self.curve.append(row)
        return row

    def state(self) -> dict[str, Any]:
        """Return everything that is needed to resume the run exactly; problems are keyed by the step."""
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
        """Resume from a state.

        Raises:
            InputError: the state belongs to a run with other settings.
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
    """Compute sqrt(mean ‖T p - T* p‖²) (B,) over points (B, N, 3); of several true poses, the nearest counts.

    Args:
        T: estimated poses (B, 4, 4).
        T_true: true poses (B, 4, 4) or (B, G, 4, 4).
        points: (B, N, 3).
    """
    from methods.nn.gmm import point_loss

    return point_loss(T, T_true if T_true.ndim == 4 else T_true[:, None], points).amin(dim=1)


def train(settings: Settings, folder: Path, weights: Path, save_every_s: float = 60.0) -> Path:
    """Train to the end, resuming the run in `folder` if there is one, and write the weights.

    Args:
        settings: of the run.
        folder: for checkpoint.pt, curve.csv and curve.png.
        weights: the safetensors file to write when done.
        save_every_s: seconds between checkpoints.

    Returns:
        The weight file.

    Raises:
        InputError: clouds of that size are impossible, or the checkpoint belongs to a run with other settings.
    """
    whole = DataRegistry.at(settings.data or None).spec(settings.dataset).open()
    trainer = Trainer(settings)
    _check_points(settings, whole, trainer.network.config.least_points)
    checkpoint = folder / "checkpoint.pt"
    _resume(trainer, checkpoint)
    held_out = _validation_batches(trainer, whole)
    _loop(trainer, part_of(whole, held_out=False), held_out, checkpoint, save_every_s)
    draw_curve(trainer.curve, settings.title).savefig(folder / "curve.png", dpi=110)
    card = Card(
        settings.method, asdict(trainer.network.config), provenance(settings, whole, trainer.seconds, trainer.curve[-1])
    )
    save(weights, trainer.network.state_dict(), card)
    print(f"weights: {weights}", flush=True)
    return weights


def _check_points(settings: Settings, whole: AnySet, least: int) -> None:
    """Raise `InputError` for sizes of clouds that the features or the objects do not allow."""
    if min(settings.points) < least:
        raise InputError(f"--points {min(settings.points)}: the features of {settings.method} need {least} or more")
    if isinstance(whole, PairSet) != condition(settings.condition).real:
        raise InputError(
            f"--condition {settings.condition}: does not fit {settings.dataset}; pairs have the condition real, objects others"
        )
    if isinstance(whole, PairSet):
        return
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


def _validation_batches(trainer: Trainer, whole: AnySet) -> list[Batch]:
    """Return the validation problems; none, with a message, if no object of the condition's categories is held out."""
    settings = trainer.settings
    part = part_of(whole, held_out=True)
    if isinstance(part, Part) and not part.has_objects(settings.condition):
        print(
            f"{settings.dataset}: no train object is held out, as every {HOLD_EVERY}th is; training goes on without validation",
            flush=True,
        )
        return []
    problems = generate(part, settings, settings.points[-1], 0, settings.validation)
    batches = [problems[i : i + 8] for i in range(0, len(problems), 8)]
    return [collate(trainer.network, batch, settings.device) for batch in batches]


def _loop(trainer: Trainer, part: AnySet, held_out: list[Batch], checkpoint: Path, save_every_s: float) -> None:
    import torch

    settings = trainer.settings
    torch.set_flush_denormal(True)  # a matmul full of denormals takes a hundred times as long

    def draw_batch(step: int) -> Batch:
        problems = generate(part, settings, points_at(settings, step), step * settings.batch, settings.batch)
        return collate(trainer.network, problems, settings.device)

    start, seconds_before, saved = time.monotonic(), trainer.seconds, time.monotonic()
    for batch in prefetch(draw_batch, trainer.done, settings.steps):
        trainer.step(batch)
        trainer.seconds = seconds_before + time.monotonic() - start
        finished = trainer.done == settings.steps
        if finished or trainer.done % settings.validate_every == 0:
            _report(trainer, trainer.validate(held_out))
            write_curve(trainer.curve, checkpoint.with_name("curve.csv"))
        if time.monotonic() - saved > save_every_s or finished:
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
    validation = (
        f"validation loss {row['validation_loss']:.4f} rmse {row['validation_rmse']:.4f} "
        f"recall {row['validation_recall']:.3f}"
    )
    print(
        f"{settings.title}  step {trainer.done}/{settings.steps}  N {points_at(settings, trainer.done - 1)}  "
        f"{trainer.seconds:.0f} s  loss {row['train_loss']:.4f}  "
        f"{validation if np.isfinite(row['validation_loss']) else 'no validation'}  {left:.0f} min left",
        flush=True,
    )


def main() -> None:
    """Train a method, as `bench.py train` does."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_arguments(parser)
    try:
        run(parser.parse_args())
    except InputError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
