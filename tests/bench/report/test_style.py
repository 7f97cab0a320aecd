"""Looks of methods and formats of numbers."""

import itertools
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

from bench.planning.catalog import Catalog
from bench.planning.config import load_preset, preset_names
from bench.report import style

WHITE, DARK = "#ffffff", "#1c1e22"
"""Backgrounds of figures and of the page in dark mode."""
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
DICHROMATS = {
    "deuteranopia": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
    "protanopia": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
}
"""Projections of linear RGB (Viénot, Brettel and Mollon 1999)."""


def _linear(colour):
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _lab(linear):
    x = TO_XYZ @ np.clip(linear, 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _contrast(a, b):
    light, dark = sorted((float(TO_XYZ[1] @ _linear(c)) for c in (a, b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _all_methods():
    """Return the kinds of the methods of `--methods all` with any preset, by name."""
    registry = Catalog.of().methods
    names = [n for n, entry in registry.entries.items() if entry.cls.in_all]
    chains = [chain for preset in preset_names() for chain in load_preset(preset)["chains"]]
    kinds = {n: registry.spec(n).kind for n in [*names, *chains]}
    return kinds | {"oracle": "control"}


def _every_look():
    kinds = _all_methods()
    with style.drawing(style.Drawing(tuple(kinds))):
        return {name: style.look(name, kind) for name, kind in kinds.items()}, kinds


def test_no_two_methods_share_colour_and_line():
    looks, _ = _every_look()
    lines = [(look.colour, look.dashes) for look in looks.values()]
    assert len(set(lines)) == len(lines)
    assert len({(look.colour, look.marker, look.refined) for look in looks.values()}) == len(lines)


def test_families_share_a_colour_and_controls_are_grey():
    looks, kinds = _every_look()
    greys = {looks[n].colour for n, kind in kinds.items() if kind == "control"}
    assert len(greys) == 1 and len(set(np.round(_linear(greys.pop()), 6))) == 1
    for a, b in (("fgr", "fgr+icp"), ("ransac10k", "ransac10m+icp"), ("deepgmr", "deepgmr_resampled")):
        assert looks[a].colour == looks[b].colour and looks[a].dashes != looks[b].dashes
        assert style.family(a) == style.family(b)


@pytest.mark.parametrize("vision", ["normal", *DICHROMATS])
def test_families_differ_for_every_vision(vision):
    """Pairs of listed colours, the free ones included, are at least 10 apart in CIELAB."""
    table = style._table()
    colours = [*table["free"], *(entry["colour"] for name, entry in table.items() if name not in ("free", "control"))]
    projection = np.array(DICHROMATS.get(vision, np.eye(3)))
    seen = [_lab(projection @ _linear(c)) for c in colours]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 10


def test_colours_contrast_with_light_and_dark():
    looks, _ = _every_look()
    colours = {look.colour for look in looks.values()} | set(style._table()["free"])
    assert min(_contrast(c, ground) for c in colours for ground in (WHITE, DARK)) >= 3


def test_plugins_take_the_next_free_look():
    names = tuple(f"plugin{i:02d}" for i in range(25))
    with style.drawing(style.Drawing(("icp", *names))):
        looks = [style.look(name, "global") for name in names]
    free = style._table()["free"]
    assert [look.colour for look in looks[: len(free)]] == free
    assert len({(look.colour, look.dashes) for look in looks}) == len(looks)


def test_dashes_for_plotly():
    assert style.look("icp", "local").dash == "solid"
    assert style.look("icp+icp", "local").dash == "4px,1.6px"


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
        (1000, 2, "1000"),
        (999.94, 2, "999.9"),
        (10, 3, "10.0"),
        (9.994, 2, "9.99"),
        (-12.34, 2, "-12.3"),
        (0.005, 2, "0.01"),
        (0.0049, 2, "0.005"),
        (0.0005, 2, "0.001"),
        (0.00049, 2, "5e-4"),
    ],
)
def test_numbers(value, digits, text):
    assert style.number(value, digits) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", "short"),
        ("12345678", "12345678"),
        ("123456789", "1234567…"),
        (" one\ntwo ", "one"),
        ("123456789\nx", "1234567…"),
    ],
)
def test_the_first_line_of_a_text_is_cut_to_the_width(text, expected):
    assert style.shorten(text, 8) == expected and len(expected) <= 8


def test_variants_of_a_family_have_the_markers_and_lines_after_its_own():
    """In the order of `looks.toml`, so that a method looks the same in every report."""
    for name, entry in style._table().items():
        if name in ("free", "control"):
            continue
        start = style._MARKERS.index(entry["marker"])
        for number, variant in enumerate(entry.get("variants", [name])):
            look = style.look(variant, "global")
            assert (look.colour, look.dashes) == (entry["colour"], style._LINES[number])
            assert look.marker == style._MARKERS[(start + number) % len(style._MARKERS)]


def test_other_parameters_give_another_line_and_marker_that_stay_the_same():
    plain, other = (style.look(name, "global") for name in ("fgr", "fgr[tuples=9]"))
    assert other.colour == plain.colour and other.dashes != plain.dashes and other.marker != plain.marker
    assert other == style.look("fgr[tuples=9]", "global") != style.look("fgr[tuples=8]", "global")
    assert style.look("fgr[tuples=9]+icp", "global").dashes == style.look("fgr+icp", "global").dashes


def test_a_picture_of_clouds_is_a_square_without_ticks_grid_and_frame():
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style.RC):
        axes = Figure().subplots()
        style.frame_picture(axes, 2.5)
    assert axes.get_xlim() == axes.get_ylim() == (-2.5, 2.5) and axes.get_aspect() == 1
    assert [*axes.get_xticks(), *axes.get_yticks()] == []
    assert not any(spine.get_visible() for spine in axes.spines.values())
    assert not any(line.get_visible() for line in axes.get_xgridlines() + axes.get_ygridlines())


def test_each_method_has_the_device_of_its_times():
    timing = pd.DataFrame({"method": ["a", "b"], "device": ["cpu", "cuda:1"]}).astype("category")
    assert style.devices_of(timing) == {"a": "cpu", "b": "cuda:1"}
    assert style.device_note(["cuda:1", "cpu", "cuda:0", "cuda:1"]).endswith("unless marked cuda:0 or cuda:1.")


def test_settings_of_a_drawing_hold_inside_alone():
    before = style.figure_width(), style.sheet()
    with pytest.raises(KeyError), style.drawing(style.Drawing(width=3.0, sheet=Path("own"))):
        assert (style.figure_width(), style.sheet()) == (3.0, Path("own"))
        raise KeyError
    assert (style.figure_width(), style.sheet()) == before == (style.WIDTHS["page"], None)
