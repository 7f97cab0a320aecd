"""The record of a training run: its file, its figure and the card."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from datasets.registry import DataRegistry
from methods.learned.training_config import Settings, command_of
from methods.learned.training_curve import draw_curve, provenance, write_curve

NAMES = ("step", "seconds", "lr", "train_loss", "validation_loss", "validation_rmse", "validation_recall")
CURVE = [
    dict(zip(NAMES, row, strict=True))
    for row in (
        (10, 1.5, 1e-3, 0.4, 0.5, 0.3, 0.25),
        (20, 2.5, 2e-3, 0.2, 0.35, 0.25, 1.0),
        (30, 3.5, 1.23456789e-4, 0.1, 0.3, 0.2, 0.75),
    )
]


def test_the_file_has_a_row_for_each_validation(tmp_path: Path) -> None:
    file = tmp_path / "new" / "curve.csv"
    for _ in range(2):  # written again after each validation
        write_curve(CURVE, file)
    assert file.read_text().split("\n") == [
        ",".join(NAMES),
        "10,1.5,0.001,0.4,0.5,0.3,0.25",
        "20,2.5,0.002,0.2,0.35,0.25,1",
        "30,3.5,0.000123457,0.1,0.3,0.2,0.75",
        "",
    ]


def test_the_figure_shows_each_column_and_a_triangle_where_none_is_missed() -> None:
    figure = draw_curve(CURVE, "deepgmr")
    lines = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    shown = {label: np.array(line.get_data(), dtype=float).tolist() for label, line in lines.items()}
    steps = [10, 20, 30]
    assert {k: v for k, v in shown.items() if k not in ("share with RMSE ≥ 0.2", "that share is 0")} == {
        "train": [steps, [0.4, 0.2, 0.1]],
        "validation": [steps, [0.5, 0.35, 0.3]],
        "mean RMSE": [steps, [0.3, 0.25, 0.2]],
    }
    np.testing.assert_allclose(shown["share with RMSE ≥ 0.2"], [steps, [0.75, math.nan, 0.25]])
    triangle = lines["that share is 0"]
    assert shown["that share is 0"][0] == [20] and triangle.get_transform() != triangle.axes.transData
    assert [len(axes.lines) for axes in figure.axes] == [2, 3]
    assert all(axes.get_yscale() == "log" and axes.get_xlabel() == "step" for axes in figure.axes)
    assert all(axes.get_legend() and not axes.yaxis.get_minor_formatter()(1.0, 0) for axes in figure.axes)
    assert [axes.get_title() for axes in figure.axes] == ["loss", "validation: held-out training objects"]
    assert figure.get_suptitle() == "deepgmr: 30 steps"
    never = draw_curve([CURVE[0], CURVE[2]], "")
    assert len(never.axes[1].lines) == 2


def test_the_card_has_the_settings_the_categories_and_the_last_validation() -> None:
    shapes = DataRegistry.at(None).spec("shapes40").open()
    names = list(shapes.categories)
    for condition, trained in (("noisy", names), ("unseen", names[:20])):
        settings = Settings(
            "deepgmr", condition=condition, seed=3, steps=7, batch=5, points=(33, 44), precision="float32"
        )
        card = provenance(settings, shapes, 12.6, {"step": 7, "validation_loss": math.nan, "lr": 0.5})
        assert card == {
            "dataset": "shapes40",
            "condition": condition,
            "points": (33, 44),
            "sampler": "axis_angle",
            "seed": 3,
            "steps": 7,
            "batch": 5,
            "precision": "float32",
            "dataset_categories": names,
            "categories": trained,
            "command": command_of(settings),
            "seconds": 13,
            "validation": {"step": 7, "validation_loss": None, "lr": 0.5},
        }
