"""Content of pages that open offline: JSON that cannot end its element, and plotly.js."""

import base64
import gzip
import json

import pytest
from plotly import offline

from bench.report import embed


@pytest.mark.parametrize("data", [{"a": [1, 2.5, None, True]}, "</script><!-- <script>", ["<", ">", "&", "ü"]])
def test_data_in_a_script_are_read_back_and_cannot_end_it(data):
    text = embed.script_json(data)
    assert json.loads(text) == data and "<" not in text and hasattr(text, "__html__")
    assert text == json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"), "without spaces"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_no_browser_reads_are_refused(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        embed.script_json([value])


def test_plotly_is_that_of_the_package_and_packed_to_the_same_bytes_at_any_time(monkeypatch):
    monkeypatch.setattr(offline, "get_plotlyjs", lambda: "var plotly = '</ü>';")
    assert embed.plotly_script() == "var plotly = '</ü>';" and hasattr(embed.plotly_script(), "__html__")
    text = embed.plotly_compressed.__wrapped__()
    packed = base64.b64decode(text)
    assert isinstance(text, str), "bytes would be shown with quotes"
    assert gzip.decompress(packed).decode() == "var plotly = '</ü>';" and packed[4:8] == bytes(4)
