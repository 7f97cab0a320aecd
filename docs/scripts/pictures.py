"""The style that all pictures of these pages share: that of the figures of a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 160
"""Resolution of the pictures."""


def save(make: Callable[..., Figure], arguments: tuple[Any, ...], file: Path) -> None:
    """Draw a picture in the style of the reports and write it as a PNG."""
    import matplotlib

    with matplotlib.rc_context(style.RC):
        make(*arguments).savefig(file, dpi=DPI, metadata={"Software": None})
