"""Tables as a protocol prints them, with published rows."""

import re

import pandas as pd
import pytest

from bench.evaluation.protocols import by_scene
from bench.planning.config import preset_names
from bench.report.published import protocol_tables, published
from tests.bench.evaluation.test_protocols import ROWS, pairs
from tests.bench.report.one_group import one_group


def summary_of(condition):
    """Summary of a method on 30 problems and one on 2, under a condition."""
    frames = one_group({"m": ("global", [0.1] * 30), "few": ("global", [0.1] * 2)}, {"m": 1.0, "few": 2.0})
    return frames["summary"].assign(condition=condition, rre_deg_mean_answered=[7.5, 1.25])


@pytest.fixture
def scans():
    rows = pd.concat([pairs(ROWS), pairs(ROWS[:1], method="few")])
    return {"summary": summary_of("real"), "scenes": by_scene(rows)}


def test_scans_have_recall_by_scene_and_published_rows_below(scans):
    (table,) = protocol_tables(scans, "3dmatch").values()
    heads = ["RR: scenes", "RR: pairs", "15°, 0.3 m: scenes", "15°, 0.3 m: pairs", "RRE (°)", "RTE (m)"]
    assert table.columns == ["method", "pairs", *heads, "a", "b"] and len({len(row) for row in table.rows}) == 1
    ours = [[cell.text for cell in row] for row in table.rows if not row[0].text.startswith("[")]
    assert ours[1] == ["m", "4", "0.833", "0.750", "0.667", "0.500", "2.00", "0.150", "0.67", "1.00"]
    printed = {row[0].text: row for row in table.rows if row[0].text.startswith("[")}
    mac = next(row for name, row in printed.items() if "MAC (FPFH)" in name)
    assert [cell.text for cell in mac[2:8]] == ["–", "–", "–", "0.841", "1.96", "0.062"] and all(c.faint for c in mac)
    number = re.match(r"\[\d+\]", mac[0].text)[0]
    assert f"{number} Zhang et al., CVPR 2023" in table.caption and "all listed" in table.caption


def test_published_rows_appear_only_where_their_protocol_fits(scans):
    assert "Published" not in protocol_tables(scans, None)["d", "real", 64].caption
    assert "Published" not in protocol_tables(scans, "geotransformer180")["d", "real", 64].caption
    (objects,) = protocol_tables({"summary": summary_of("crop[keep=0.7]")}, "geotransformer180").values()
    assert objects.columns == ["method", "answered", "RRE mean (°)", "RTE mean"]
    shown = {row[0].text: [cell.text for cell in row[2:]] for row in objects.rows}
    assert shown["[1] GeoTransformer (learned)"] == ["6.83", "0.044"] and shown["m"][0] == "1.250"
    assert protocol_tables({"summary": summary_of("noisy")}, "3dmatch") == {}


def test_every_published_row_names_its_source_and_a_preset():
    table = published()
    assert set(table["protocol"]) <= set(preset_names())
    assert table["source"].str.len().min() > 10 and not table.duplicated(["protocol", "method", "metric"]).any()
    recalls = table[table["metric"].str.startswith("recall")]
    assert recalls["value"].between(0, 1).all() and table["value"].gt(0).all()
