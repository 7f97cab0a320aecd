"""Text from outside: one printable line that can be stored, whatever it was."""

import json

import numpy as np
import pytest

from common.text import clean, clean_json

HOSTILE = {
    "surrogate": "cannot read model_\udce4.bin",
    "colour": "\x1b[31;1mred\x1b[0m and \x1b]0;title\x07bell",
    "controls": "a\x00b\x08c\x7fd\x9b31me",
    "lines": "one\ntwo\r\nthree\u2028four",
    "direction": "abc\u202edcba\u2066",
    "huge": "x" * 5_000_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_text_becomes_a_printable_line(text):
    result = clean(text)
    assert result.isprintable() and len(result) < 2050
    assert result.encode().decode() == result == clean(result)


def test_plain_text_is_unchanged():
    assert clean("Größe → 3 °, 点云") == "Größe → 3 °, 点云"


class Word(str):
    """A text of a class that only a plug-in knows."""


def test_values_become_plain_json():
    values = {
        "n": 10**5000,
        "m": -(10**400),
        "text": Word("a\nb"),
        "x": np.float64(2.5),
        "list": (1, None, True),
        3: object,
    }
    plain = clean_json(values)
    assert json.loads(json.dumps(plain))["n"] == float("inf") and plain["m"] == float("-inf")
    assert plain["text"] == "a b" and type(plain["text"]) is str and type(plain["x"]) is float
    assert plain["list"] == [1, None, True] and plain["3"] == "<class 'object'>"


@pytest.mark.parametrize("most", [1, 17, 18, 19, 25, 99, 100])
def test_a_long_text_is_cut_to_its_beginning_and_its_length(most):
    text, end = "x" * 100, "… (100 characters)"
    assert clean(text, most) == (text if most == 100 else "x" * max(most - len(end), 0) + end)
