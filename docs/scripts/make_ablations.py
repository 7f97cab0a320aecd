"""Draw docs/ablations.png from a run of the ablations.

python -m docs.scripts.make_ablations results/NAME
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure

PANELS = {
    "Gaussians": ["j4", "j8", "j16", "j32"],
    "input, loss, centring": ["j16", "xyz", "rmse_loss", "printed"],
    "neighbours and width": ["j16", "k10", "k40", "width256", "width512"],
}


def main() -> None:
    """Draw three panels of error CDFs with a logarithmic error axis, because all errors but one are close to each other."""
    trials = pd.read_csv(Path(sys.argv[1]) / "trials.csv")
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    for axes, (title, names) in zip(figure.subplots(1, 3, sharey=True), PANELS.items(), strict=True):
        for colour, name in zip(colormaps["viridis"]([0, 0.3, 0.55, 0.75, 0.92]), names, strict=False):
            errors = trials.loc[trials["method"] == f"deepgmr_{name}", "rmse"].sort_values()
            share = [(i + 1) / len(errors) for i in range(len(errors))]
            axes.step(errors, share, where="post", color=colour, label=f"{errors.mean():.4f}  {name}", linewidth=1.6)
        axes.set(xscale="log", xlim=(1e-3, 1.5), xlabel="RMSE (units of the cloud)", title=title)
        axes.legend(loc="upper left", fontsize=8, title="mean RMSE", title_fontsize=8)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("share of evaluated problems")
    figure.savefig(Path(__file__).resolve().parents[1] / "ablations.png", dpi=110)


if __name__ == "__main__":
    main()
