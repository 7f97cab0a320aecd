"""Record of a training run: the validation curve, its figure, and the weights' card."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from datasets.base import DataSet
from datasets.conditions import condition, labels_allowed
from methods.learned.training_config import Settings, command_of

Curve = list[dict[str, float]]
"""Rows of the validations: step, seconds, lr, train_loss, validation_loss, validation_rmse, validation_recall."""


def write_curve(curve: Curve, file: Path) -> None:
    """Write the validation curve as CSV."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, curve[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" for k, v in row.items()} for row in curve)


def plot_curve(curve: Curve, settings: Settings, file: Path) -> None:
    """Plot losses, validation RMSE and recall against the step, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = [row["step"] for row in curve]
    for name, label in (("train_loss", "train"), ("validation_loss", "validation")):
        left.semilogy(steps, [row[name] for row in curve], label=label)
    right.semilogy(steps, [row["validation_rmse"] for row in curve], color="tab:orange", label="mean RMSE")
    missed = [max(1 - row["validation_recall"], 1e-3) for row in curve]
    right.semilogy(steps, missed, color="tab:red", label="1 - recall@0.2")
    for axes, title in ((left, "loss"), (right, f"held-out training shapes, N = {settings.points[-1]}")):
        axes.set(xlabel="step", title=title)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(f"{settings.title}: {settings.steps} steps of {settings.batch} pairs")
    figure.savefig(file, dpi=110)


def provenance(settings: Settings, whole: DataSet, seconds: float, validation: dict[str, float]) -> dict[str, Any]:
    """Return the provenance on the weights' card: data, categories, command, seconds, last validation."""
    labels = labels_allowed(condition(settings.condition), "train", len(whole.categories))
    trained_labels = range(len(whole.categories)) if labels is None else labels
    names = ("dataset", "condition", "points", "sampler", "seed", "steps", "batch", "precision")
    return {
        **{name: getattr(settings, name) for name in names},
        "dataset_categories": list(whole.categories),
        "categories": [whole.categories[i] for i in trained_labels],
        "command": command_of(settings),
        "seconds": round(seconds),
        "validation": {name: value if math.isfinite(value) else None for name, value in validation.items()},
    }
