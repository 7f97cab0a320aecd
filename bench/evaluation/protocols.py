"""Tables as the papers of a protocol print them: recall per scene for pairs of scans, mean errors for objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.loader import GROUP_COLUMNS
from datasets.conditions import REAL

if TYPE_CHECKING:
    import pandas as pd

ALL_PAIRS, SCENE_MEAN = "all pairs", "mean over scenes"
"""Names of the two rows of a method over all scenes."""
BY_INFORMATION, BY_POSE = CONVENTIONS["3dmatch"], CONVENTIONS["3dmatch_pose"]
VALUES = ["recall_information", "recall_pose", "rre_deg_mean_success", "rte_mean_success"]
COLUMNS = [*GROUP_COLUMNS, "kind", "scene", "pairs", *VALUES]


def is_real(condition: Any) -> bool:
    """Return whether a condition, as in tables, is that of real pairs."""
    return str(condition).split("[")[0] == REAL


def by_scene(trials: pd.DataFrame) -> pd.DataFrame:
    """Return recall and errors of real pairs by method and scene; columns `COLUMNS`.

    `recall_information` is the share of pairs with √(ξᵀΛξ/Λ₀₀) < 0.2 m, NaN if a pair has no `gt.info`; `recall_pose` the share
    with RRE < 15° and RTE < 0.3 m. The mean errors are over the latter pairs. After its scenes each method has two more rows:
    the mean over scenes, in which every scene counts the same, and all pairs, in which every pair does.
    """
    import pandas as pd

    evaluated = trials[
        trials["condition"].map(is_real).to_numpy(dtype=bool) & (trials["status"] != "skipped").to_numpy()
    ]
    if evaluated.empty:
        return pd.DataFrame(columns=pd.Index(COLUMNS))
    if "rmse_information" not in evaluated:
        evaluated = evaluated.assign(rmse_information=np.nan)
    success = BY_POSE.success(evaluated)
    work = evaluated[[*GROUP_COLUMNS, "kind"]].assign(
        scene=evaluated["category"].astype(str),
        pairs=1,
        recall_information=BY_INFORMATION.success(evaluated),
        recall_pose=success,
        rre_deg_mean_success=evaluated["rre_deg"].where(success == 1),
        rte_mean_success=evaluated["rte"].where(success == 1),
    )
    rows = [row for key, group in work.groupby(GROUP_COLUMNS, sort=True, observed=True) for row in _rows_of(group, key)]
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS))


def _rows_of(group: pd.DataFrame, key: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return the rows of one method in one problem group."""
    start = dict(zip(GROUP_COLUMNS, key, strict=True)) | {"kind": group["kind"].iloc[0]}
    scenes = [(str(name), _means(scene)) for name, scene in group.groupby("scene", sort=True)]
    across = {name: float(np.mean([values[name] for _, values in scenes])) for name in VALUES[:2]}
    across |= {
        name: float(np.mean([v for _, values in scenes if (v := values[name]) == v] or [np.nan])) for name in VALUES[2:]
    }
    across["pairs"] = len(group)
    return [
        start | {"scene": name} | values for name, values in [*scenes, (SCENE_MEAN, across), (ALL_PAIRS, _means(group))]
    ]


def _means(rows: pd.DataFrame) -> dict[str, float]:
    """Return number of pairs, recalls (NaN if one is unknown) and mean errors of successes."""
    recalls = {name: float(rows[name].mean(skipna=False)) for name in VALUES[:2]}
    return {"pairs": len(rows)} | recalls | {name: float(rows[name].mean()) for name in VALUES[2:]}
