"""Recall per scene against counting by hand."""

import numpy as np
import pandas as pd
import pytest

from bench.evaluation.protocols import ALL_PAIRS, COLUMNS, SCENE_MEAN, by_scene


def pairs(rows, condition="real", **columns):
    """Trials of one method from (scene, RRE, RTE, error by gt.info)."""
    frame = pd.DataFrame(rows, columns=["category", "rre_deg", "rte", "rmse_information"])
    start = {"method": "m", "dataset": "d", "condition": condition, "points": 64, "kind": "global", "status": "ok"}
    return frame.assign(**start | columns)


ROWS = [
    ("a", 1.0, 0.1, 0.05),
    ("a", 20.0, 0.1, 0.19),  # registered by gt.info alone
    ("a", np.inf, np.inf, np.inf),  # a failure
    ("b", 3.0, 0.2, 0.1),
]


def test_scenes_count_the_same_in_their_mean_and_pairs_in_all():
    table = by_scene(pairs(ROWS)).set_index("scene")
    assert table["pairs"].to_dict() == {"a": 3, "b": 1, SCENE_MEAN: 4, ALL_PAIRS: 4}
    by_information = {"a": 2 / 3, "b": 1, SCENE_MEAN: 5 / 6, ALL_PAIRS: 3 / 4}
    by_pose = {"a": 1 / 3, "b": 1, SCENE_MEAN: 2 / 3, ALL_PAIRS: 2 / 4}
    assert table["recall_information"].to_dict() == pytest.approx(by_information)
    assert table["recall_pose"].to_dict() == pytest.approx(by_pose)
    assert table["rre_deg_mean_success"].to_dict() == pytest.approx({"a": 1, "b": 3, SCENE_MEAN: 2, ALL_PAIRS: 2})
    assert table.loc[ALL_PAIRS, "rte_mean_success"] == pytest.approx(0.15)


def test_a_pair_without_information_makes_its_recall_unknown_but_not_that_of_poses():
    table = by_scene(pairs([*ROWS[:3], ("b", 3.0, 0.2, np.nan)])).set_index("scene")
    assert table["recall_information"].isna().to_dict() == {"a": False, "b": True, SCENE_MEAN: True, ALL_PAIRS: True}
    assert table.loc[ALL_PAIRS, "recall_pose"] == 0.5
    none = by_scene(pairs(ROWS).drop(columns="rmse_information")).set_index("scene")
    assert none["recall_information"].isna().all() and none.loc["b", "recall_pose"] == 1


def test_objects_and_skipped_problems_have_no_row():
    assert by_scene(pairs(ROWS, condition="noisy")).empty
    skipped = by_scene(pairs(ROWS, status=["ok", "skipped", "skipped", "skipped"]))
    assert list(skipped.columns) == COLUMNS and list(skipped["scene"]) == ["a", SCENE_MEAN, ALL_PAIRS]
