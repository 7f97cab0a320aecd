"""Record of a training run: the validation curve, its figure, and the weights' card."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.base import PairSet
from datasets.conditions import condition, labels_allowed
from datasets.registry import AnySet
from methods.learned.training_config import Settings, command_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAIN, VALIDATION, MISSED = "#0072B2", "#D55E00", "#7c3f8c"
"""Colours of the lines."""

Curve = list[dict[str, float]]
"""Rows of the validations: step, seconds, lr, train_loss, validation_loss, validation_rmse, validation_recall."""


def write_curve(curve: Curve, file: Path) -> None:
    """Write the validation curve as CSV."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, curve[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" for k, v in row.items()} for row in curve)


def draw_curve(curve: Curve, name: str) -> Figure:
    """Draw losses, validation RMSE and the share of validation problems that are not solved against the step.

    Every axis is logarithmic; where the share is 0, a triangle at the lower edge shows it.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.16, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = [row["step"] for row in curve]
    left.plot(steps, [row["train_loss"] for row in curve], color=TRAIN, label="train")
    left.plot(steps, [row["validation_loss"] for row in curve], color=VALIDATION, label="validation")
    right.plot(steps, [row["validation_rmse"] for row in curve], color=VALIDATION, label="mean RMSE")
    missed = [1 - row["validation_recall"] for row in curve]
    right.plot(steps, [m or math.nan for m in missed], ".-", color=MISSED, label="share with RMSE ≥ 0.2")
    none = [step for step, m in zip(steps, missed, strict=True) if not m]
    if none:
        edge = right.get_xaxis_transform()
        right.plot(none, [0.03] * len(none), "v", color=MISSED, markersize=4, transform=edge, label="that share is 0")
    for axes, title in ((left, "loss"), (right, "validation: held-out training objects")):
        axes.set(xlabel="step", title=title, yscale="log")
        axes.yaxis.set_minor_formatter("")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(f"{name}: {steps[-1]:.0f} steps", x=0.005, ha="left")
    return figure


def provenance(settings: Settings, whole: AnySet, seconds: float, validation: dict[str, float]) -> dict[str, Any]:
    """Return the provenance on the weights' card: data, categories, command, seconds, last validation."""
    categories = () if isinstance(whole, PairSet) else whole.categories
    labels = labels_allowed(condition(settings.condition), "train", len(categories))
    trained_labels = range(len(categories)) if labels is None else labels
    names = ("dataset", "condition", "points", "sampler", "seed", "steps", "batch", "precision")
    return {
        **{name: getattr(settings, name) for name in names},
        "dataset_categories": list(categories),
        "categories": [categories[i] for i in trained_labels],
        "command": command_of(settings),
        "seconds": round(seconds),
        "validation": {name: value if math.isfinite(value) else None for name, value in validation.items()},
    }
