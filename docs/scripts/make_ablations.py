"""Draw docs/ablations.png from a run of the ablations.

python -m docs.scripts.make_ablations results/NAME
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure

from bench.report.panels import LineEnd, label_ends, new_figure, put_title
from docs.scripts.pictures import save

PANELS = {
    "Gaussians": ["j4", "j8", "j16", "j32"],
    "input, loss, centring": ["j16", "xyz", "rmse_loss", "printed"],
    "neighbours and width": ["j16", "k10", "k40", "width256", "width512"],
}


def draw(trials: pd.DataFrame) -> Figure:
    """Draw three panels of error CDFs with a logarithmic error axis, because all errors but one are close to each other."""
    height = 1.9
    figure, cells = new_figure(len(PANELS), 1, height, sharex=True, sharey=True)
    for axes, (title, names) in zip(cells[:, 0], PANELS.items(), strict=True):
        axes.set(xscale="log", xlim=(1e-3, 1.5), ylim=(0, 1.02), title=title, ylabel="share of problems")
        ends = []
        for colour, name in zip(colormaps["viridis"]([0, 0.3, 0.55, 0.75, 0.92]), names, strict=False):
            errors = trials.loc[trials["method"] == f"deepgmr_{name}", "rmse"].sort_values()
            share = [(i + 1) / len(errors) for i in range(len(errors))]
            lines = {"color": colour, "linestyle": "-", "linewidth": 1.4}
            axes.step(errors, share, where="post", **lines)
            ends.append(LineEnd(1.0, f"{name} {errors.mean():.4f}", lines))
        label_ends(axes, ends, 0.7 * height)
    cells[-1, 0].set_xlabel("RMSE (units of the cloud)")
    put_title(
        figure, "Share of problems solved to within an error", "ablations of DeepGMR; behind a name: the mean RMSE"
    )
    return figure


if __name__ == "__main__":
    frame = pd.read_csv(Path(sys.argv[1]) / "trials.csv")
    save(draw, (frame,), Path(__file__).resolve().parents[1] / "ablations.png")
