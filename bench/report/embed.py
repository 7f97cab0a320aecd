"""Content embedded in HTML pages that open offline: data as JSON, and plotly.js from the installed package."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup


def plotly_script() -> Markup:
    """Return plotly.js for a script element."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


@cache
def plotly_compressed() -> str:
    """Return plotly.js as gzip in base 64: 1.9 MB instead of 4.8 MB; the page decompresses it. A page is written twice."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def script_json(data: Any) -> Markup:
    """Format data as JSON that cannot end its script element; raise ValueError for NaN and infinity."""
    from markupsafe import Markup

    return Markup(json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))
