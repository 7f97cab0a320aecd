"""The font of figures: a reduced copy of DejaVu Sans, because reading all of its 6 000 glyphs takes half of the time of a PDF."""

from __future__ import annotations

import io
import logging
from functools import cache as kept
from pathlib import Path
from typing import Any

from common.errors import StorageError
from common.files import make_folder, write_atomically
from common.keys import digest
from datasets import cache

FAMILY = "Registration Bench Sans"
"""Name of the reduced font: its licence allows changes under names without "Bitstream", "Vera" and "Arev"."""
SIMILAR = "'DejaVu Sans', 'Bitstream Vera Sans', 'Verdana', sans-serif"
"""Fonts with the same or similar widths, which SVGs name."""
STYLES = {"Book": "", "Bold": "-Bold", "Oblique": "-Oblique", "BoldOblique": "-BoldOblique"}
"""Ends of the names of the files of DejaVu Sans by style."""
RANGES = (
    (0x20, 0x17F),  # Latin
    (0x370, 0x3FF),  # Greek
    (0x2010, 0x205F),  # punctuation
    (0x2070, 0x209F),  # superscripts and subscripts
    (0x2190, 0x2199),  # arrows
    (0x2200, 0x2265),  # mathematical operators
)
"""First and last character of the ranges that the reduced font has; a figure with any other one is drawn in DejaVu Sans."""
_FAMILY_NAME, _STYLE_NAME, _FULL_NAME, _POSTSCRIPT_NAME, _KEPT_NAMES = 1, 2, 4, 6, (0, 13, 14)
"""Numbers of entries of a font's table of names; those kept are the copyright and the licence."""


MISSING = r"Glyph \d+ .* missing from font"
"""Pattern of matplotlib's warning of a character that a font does not have."""


@kept
def settings() -> dict[str, Any]:
    """Register the reduced font with matplotlib and return the settings that use it.

    They are empty if the font cannot be stored or read, or if the user's settings of matplotlib have another font. Its files
    are made once and kept in the cache folder.
    """
    import fontTools
    import matplotlib
    from matplotlib.font_manager import fontManager

    families = matplotlib.rcParams["font.sans-serif"]
    if matplotlib.rcParams["font.family"] != ["sans-serif"] or families[0] != "DejaVu Sans":
        return {}
    source = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    folder = cache.folder() / digest("font", FAMILY, str(RANGES), matplotlib.__version__, fontTools.version)[:32]
    try:
        make_folder(folder)
        for style, end in STYLES.items():
            file = folder / f"{style}.ttf"
            if not file.is_file():
                write_atomically(file, _reduced(source / f"DejaVuSans{end}.ttf", style))
            fontManager.addfont(file)
    except (OSError, RuntimeError, StorageError) as error:  # RuntimeError: a damaged file
        logging.getLogger(__name__).warning("%s: no font can be stored or read (%s)", folder, error)
        return {}
    return {"font.family": [FAMILY]}


def without_own_name(svg: str) -> str:
    """Return an SVG that names the fonts like DejaVu Sans, not the reduced font, which no other program knows."""
    return svg.replace(f"'{FAMILY}'", SIMILAR)


def _reduced(source: Path, style: str) -> bytes:
    """Return a copy of a font with the characters of `RANGES`, their kerning, ligatures and hints, and its new name."""
    from fontTools import subset

    options = subset.Options(
        layout_features=["liga"],
        layout_scripts=["DFLT", "latn"],
        legacy_kern=True,
        name_IDs=list(_KEPT_NAMES),
        notdef_outline=True,
        drop_tables=["FFTM", "GDEF", "MATH"],
    )
    with subset.load_font(source, options) as font:
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=[c for first, last in RANGES for c in range(first, last + 1)])
        subsetter.subset(font)
        names = {_FAMILY_NAME: FAMILY, _STYLE_NAME: style, _FULL_NAME: f"{FAMILY} {style}"}
        names[_POSTSCRIPT_NAME] = f"{FAMILY.replace(' ', '')}-{style}"
        for number, text in names.items():
            font["name"].setName(text, number, 3, 1, 0x409)  # Unicode, English
            font["name"].setName(text, number, 1, 0, 0)
        content = io.BytesIO()
        font.save(content)
        return content.getvalue()
