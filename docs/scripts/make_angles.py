"""Plot error against angle for the small learned methods, their untrained networks and ICP.

    python -m docs.scripts.make_angles [PROBLEMS | draw]

Write `training_angles.csv` and `training_angles.png` to `docs/`, for `docs/training-baselines.md`. Objects are those
held out of shapes40's train split.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench.evaluation.metrics import rmse
from bench.report.panels import new_figure, put_title
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from docs.scripts.pictures import save
from methods.base import Method, NoSolution
from methods.core.registry import MethodRegistry
from methods.learned.training import build_network
from methods.learned.training_data import Part
from methods.learned.weights import Card
from methods.learned.weights import save as save_weights

HERE = Path(__file__).resolve().parents[1]

ANGLES = (5, 15, 30, 45, 60, 90, 135, 180)
TRAINED = ("dcp_small", "dcp_small_euler45", "prnet_small", "prnet_small_euler45", "pointnetlk_small")
POINTS = 1024
ALL, SMALL, NONE = "trained on all rotations", "trained on Euler angles up to 45°", "untrained"
PANELS = {
    "DCP": {ALL: "dcp_small", SMALL: "dcp_small_euler45", NONE: "dcp_small, untrained", "ICP": "icp"},
    "PRNet": {ALL: "prnet_small", SMALL: "prnet_small_euler45", NONE: "prnet_small, untrained", "ICP": "icp"},
    "PointNetLK": {SMALL: "pointnetlk_small", NONE: "pointnetlk_small, untrained", "ICP": "icp"},
}
"""Methods by title of the panel and label."""
LOOKS: dict[str, Any] = {
    ALL: {"color": "#0072B2", "marker": "o", "markersize": 3.5},
    SMALL: {"color": "#D55E00", "marker": "s", "markersize": 3.5, "linestyle": "--"},
    NONE: {"color": "#7c7c7c", "linestyle": ":"},
    "ICP": {"color": "#1b1d21", "linewidth": 0.8},
}
Row = dict[str, Any]


def untrained(name: str, folder: Path) -> str:
    """Write randomly initialised weights and return the method that uses them, as written after `--methods`."""
    import torch

    torch.manual_seed(0)
    net = build_network(name)
    file = folder / f"{name}.safetensors"
    save_weights(file, net.state_dict(), Card(name, asdict(net.config)))
    return f"{name}[weights={file}]"


def ready(text: str) -> Method:
    """Set up a method."""
    method = MethodRegistry().spec(text).build()
    method.setup("cpu", 0, "shapes40")
    return method


def problems(angle: float, count: int) -> list[Problem]:
    """Return noisy held-out problems, rotated by an angle about random axes: the same objects for every angle."""
    part = Part(DataRegistry.at().spec("shapes40").objects(), held_out=True)
    key = ProblemKey("shapes40", "noisy", POINTS, 0, 0, "train", "axis_angle", (angle, angle))
    return [make_problem(part, replace(key, index=i)) for i in range(count)]


def error(method: Method, problem: Problem) -> float:
    """Return the RMSE of a method's pose; infinite if it returns none."""
    method.begin(0)
    try:
        T = method.register(problem.source, problem.target)
    except NoSolution:
        return float("inf")
    return float(rmse(T, problem.T_target_source, problem.evaluation_points))


def measured(methods: dict[str, Method], count: int) -> list[Row]:
    """Return one row per method and angle: median RMSE and recall at 0.2."""
    rows = []
    for angle in ANGLES:
        drawn = problems(angle, count)
        for name, method in methods.items():
            errors = np.array([error(method, problem) for problem in drawn])
            row = {"method": name, "angle_deg": angle, "problems": count, "rmse_median": f"{np.median(errors):.4f}"}
            rows.append(row | {"recall": f"{(errors < 0.2).mean():.3f}"})
            print(*rows[-1].values(), flush=True)
    return rows


def draw(rows: list[Row]) -> Figure:
    """Draw recall and median RMSE against the angle, a column per network: as trained, untrained, and ICP beside them."""
    figure, cells = new_figure(2, len(PANELS), 1.75, sharex=True, sharey="row")
    for (top, bottom), (title, methods) in zip(cells.T, PANELS.items(), strict=True):
        for label, name in methods.items():
            own = [row for row in rows if row["method"] == name]
            top.plot(ANGLES, [float(row["recall"]) for row in own], label=label, **LOOKS[label])
            bottom.plot(ANGLES, [float(row["rmse_median"]) for row in own], **LOOKS[label])
        top.set(title=title, ylim=(-0.03, 1.03))
        bottom.set(yscale="log", xlabel="angle between the clouds (°)", xlim=(0, ANGLES[-1]))
        bottom.set_xticks(ANGLES, [f"{a}" if a not in (5, 15, 30) else "" for a in ANGLES])
    cells[0, 0].set_ylabel("recall@0.2")
    cells[1, 0].set_ylabel("median RMSE")
    figure.legend(*cells[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LOOKS))
    where = f"shapes40, noisy, {POINTS} points, objects held out of the train split, {rows[0]['problems']} per angle"
    put_title(figure, "Recall and error against the rotation angle", where)
    return figure


def read_rows() -> list[Row]:
    """Read what was measured before."""
    with (HERE / "training_angles.csv").open(newline="") as handle:
        return list(csv.DictReader(handle))


def main() -> None:
    """Measure, write the CSV file and draw the figure; with the word `draw`, draw what was measured before."""
    if sys.argv[1:] == ["draw"]:
        save(draw, (read_rows(),), HERE / "training_angles.png")
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with tempfile.TemporaryDirectory() as folder:
        fresh = {
            f"{n}, untrained": untrained(n, Path(folder)) for n in ("dcp_small", "prnet_small", "pointnetlk_small")
        }
        rows = measured({n: ready(t) for n, t in {**{n: n for n in TRAINED}, **fresh, "icp": "icp"}.items()}, count)
    with (HERE / "training_angles.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    save(draw, (rows,), HERE / "training_angles.png")


if __name__ == "__main__":
    main()
