"""Looks of methods and formats of numbers."""

import numpy as np
import pytest

from bench.report import (
    style,
)
from tests.bench.synthetic_run import METHODS


def test_looks_depend_on_the_name_alone_and_tell_methods_apart():
    looks = {name: style.look(name, kind) for name, (kind, *_) in METHODS.items()}
    for name, (kind, *_) in METHODS.items():
        assert style.look(name, kind) == looks[name]
    shown = [look for name, look in looks.items() if METHODS[name][0] != "control"]
    assert len(set(shown)) == len(shown)
    assert len({look.marker for name, look in looks.items() if METHODS[name][0] == "control"}) == 5
    assert looks["fgr"].colour == looks["fgr+icp"].colour and looks["fgr"].line != looks["fgr+icp"].line
    assert {style.look(f"m{i}", "global").colour for i in range(40)} <= set(style._COLOURS)


def test_every_packaged_colour_survives_colour_blindness():
    """Pairs of fixed colours stay apart in lightness or hue after Viénot's deuteranopia projection."""
    colours = [v["colour"] for v in style._packaged_looks().values() if "colour" in v]
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours]) ** 2.2
    flat = rgb @ np.array([[0.29275, 0.29275, -0.02234], [0.70725, 0.70725, 0.02234], [0.0, 0.0, 1.0]])
    seen = np.clip(flat, 0, 1) ** (1 / 2.2)
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=2)[np.triu_indices(len(seen), 1)]
    assert gaps.min() > 0.12


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (np.nan, 3, "–"),
        (np.inf, 3, "∞"),
        (0, 2, "0"),
        (1e-7, 3, "1e-7"),
        (0.0021, 2, "0.002"),
        (0.123456, 3, "0.123"),
        (123.4, 3, "123.4"),
        (6123.4, 1, "6123"),
    ],
)
def test_numbers(value, digits, text):
    assert style.number(value, digits) == text
