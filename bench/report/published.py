"""Tables of a protocol as its papers print them, optionally with published rows below ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation.protocols import ALL_PAIRS, SCENE_MEAN, is_real
from bench.report import ranking
from bench.report.ranking import GroupKey, display_name, group_title, groups_of
from bench.report.table import Table, TableCell, fainted, num
from bench.report.tables import Row, group_records

if TYPE_CHECKING:
    import pandas as pd

SCAN_COLUMNS = {
    (SCENE_MEAN, "recall_information"): ("RR: scenes", 3, "recall_information_scenes"),
    (ALL_PAIRS, "recall_information"): ("RR: pairs", 3, "recall_information"),
    (SCENE_MEAN, "recall_pose"): ("15°, 0.3 m: scenes", 3, "recall_pose_scenes"),
    (ALL_PAIRS, "recall_pose"): ("15°, 0.3 m: pairs", 3, "recall_pose"),
    (ALL_PAIRS, "rre_deg_mean_success"): ("RRE (°)", 2, "rre_deg"),
    (ALL_PAIRS, "rte_mean_success"): ("RTE (m)", 3, "rte"),
}
"""Row and column of `scenes.csv`: head, digits, and the metric of `published.csv`."""
OBJECT_COLUMNS = {
    "rre_deg_mean_answered": ("RRE mean (°)", 3, "rre_deg"),
    "rte_mean_answered": ("RTE mean", 3, "rte"),
}
"""Column of `summary.csv`: head, digits, and the metric of `published.csv`."""
CROPS = ("crop", "nearest")
"""Conditions whose papers print mean errors."""
MAX_SCENES = 8
"""Scenes shown one by one in a table; `scenes.csv` has all."""


@cache
def published() -> pd.DataFrame:
    """Read the published numbers: protocol, method, metric, value, pairs (or objects), source."""
    import pandas as pd

    with (files("bench.report") / "published.csv").open() as file:
        return pd.read_csv(file)


def protocol_tables(frames: Mapping[str, pd.DataFrame], protocol: str | None) -> dict[GroupKey, Table]:
    """Return the table of each problem group that has one: pairs of scans, and objects cropped as in a protocol.

    Args:
        frames: result of `bench.evaluation.aggregate.tables`.
        protocol: whose published rows are added; None for none.
    """
    tables = {}
    for group in groups_of(frames["summary"]):
        rows = [row for row in group_records(frames["summary"], group) if row["problems"]]
        if is_real(group[1]) and "scenes" in frames and rows:
            tables[group] = _scan_table(group, rows, ranking.select_group(frames["scenes"], group), protocol)
        elif str(group[1]).split("[")[0] in CROPS and rows:
            tables[group] = _object_table(group, rows, protocol)
    return tables


def _scan_table(group: GroupKey, rows: list[Row], scenes: pd.DataFrame, protocol: str | None) -> Table:
    values = {(str(r["method"]), str(r["scene"])): r for r in scenes.to_dict("records")}
    names = [n for n in dict.fromkeys(scenes["scene"].astype(str)) if n not in (ALL_PAIRS, SCENE_MEAN)]
    names = names if 1 < len(names) <= MAX_SCENES else []
    body = []
    for row in sorted(rows, key=lambda row: _scan_order(values[str(row["method"]), ALL_PAIRS])):
        method = str(row["method"])
        pairs = values[method, ALL_PAIRS]["pairs"]
        cells = [TableCell(display_name(row)), TableCell(str(pairs), float(pairs))]
        cells += [num(values[method, scene][name], digits) for (scene, name), (_, digits, _) in SCAN_COLUMNS.items()]
        cells += [_scene_cell(values.get((method, scene))) for scene in names]  # slow methods may lack a scene
        body.append(fainted(cells, ranking.below_floor(row)))
    heads = ["method", "pairs", *(head for head, *_ in SCAN_COLUMNS.values()), *names]
    printed, note = _printed(protocol, [metric for *_, metric in SCAN_COLUMNS.values()], [""] * len(names), True)
    return Table(f"As printed: {group_title(group)}", heads, [*body, *printed], caption=SCAN_NOTE + note)


SCAN_NOTE = (
    "RR: registration recall, √(ξᵀΛξ/Λ₀₀) < 0.2 m by gt.info, as 3DMatch and its successors print it: the mean over scenes. "
    "15°, 0.3 m: share of pairs with RRE and RTE below these, as PointDSC and SC2-PCR print it; RRE and RTE: mean over these "
    "pairs. Failures count as not registered. One by one in scenes.csv and in the report: recall of each scene, by gt.info if "
    "all pairs have it."
)


def _scan_order(row: Mapping[Any, Any]) -> tuple[bool, float, str]:
    """Return the sort key of a method: controls last, then by recall."""
    recall = row[_scene_value(row)]
    return row["kind"] == "control", -recall, str(row["method"])


def _scene_cell(row: Mapping[Any, Any] | None) -> TableCell:
    return num(np.nan if row is None else row[_scene_value(row)], 2)


def _scene_value(row: Mapping[Any, Any]) -> str:
    return "recall_pose" if np.isnan(row["recall_information"]) else "recall_information"


def _object_table(group: GroupKey, rows: list[Row], protocol: str | None) -> Table:
    body = []
    for row in sorted(rows, key=lambda row: (row["kind"] == "control", row["rre_deg_mean_answered"])):
        cells = [TableCell(display_name(row)), TableCell(f"{row['answered']}/{row['problems']}", row["answer_rate"])]
        cells += [num(row[name], digits) for name, (_, digits, _) in OBJECT_COLUMNS.items()]
        body.append(fainted(cells, ranking.below_floor(row)))
    heads = ["method", "answered", *(head for head, *_ in OBJECT_COLUMNS.values())]
    printed, note = _printed(protocol, [metric for *_, metric in OBJECT_COLUMNS.values()], [], False)
    return Table(f"As printed: {group_title(group)}", heads, [*body, *printed], caption=OBJECT_NOTE + note)


OBJECT_NOTE = (
    "Mean rotation error (angle) and translation error over answered problems, as RPMNet, Predator and GeoTransformer print "
    "them. A mean without failures favours methods that answer less often: read it with answered."
)


def _printed(
    protocol: str | None, metrics: list[str], empty: list[str], real: bool
) -> tuple[list[list[TableCell]], str]:
    """Return the published rows of a protocol, faint, and the note on their sources; nothing if it does not fit."""
    if protocol is None:
        return [], ""
    rows = published()[published()["protocol"] == protocol]
    if real != (rows["metric"].str.startswith("recall").any()):
        return [], ""
    body: list[list[TableCell]] = []
    sources: dict[str, int] = {}
    for method, own in rows.groupby("method", sort=False):
        values = dict(zip(own["metric"], own["value"], strict=True))
        number = sources.setdefault(f"{own['source'].iloc[0]}; {own['pairs'].iloc[0]}", len(sources) + 1)
        digits = [2 if metric == "rre_deg" else 3 for metric in metrics]
        shown = [num(values.get(metric, np.nan), d) for metric, d in zip(metrics, digits, strict=True)]
        cells = [TableCell(f"[{number}] {method}"), TableCell("–", np.nan), *shown, *map(TableCell, empty)]
        body.append(fainted(cells, True))
    return body, " Published: " + "; ".join(f"[{n}] {source}" for source, n in sources.items()) + "."
