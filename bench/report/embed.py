"""What an HTML page that opens offline carries inside: data as JSON, and Plotly from the installed package."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup


def plotly_script() -> Markup:
    """The whole of plotly.js, for a script element."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def script_json(data: Any) -> Markup:
    """Data as JSON that cannot end the script element it stands in; NaN and infinity are refused."""
    from markupsafe import Markup

    return Markup(json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))
