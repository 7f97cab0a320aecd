"""Text from outside: one printable line that can be stored, whatever it was."""

import json

import numpy as np
import pytest

from common.text import clean, clean_json, counted, join_names, printable

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


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**1023 - 1, 2**1023, -(2**1023)])
def test_whole_numbers_beyond_64_bits_are_floats_and_beyond_those_infinite(number):
    plain = clean_json(number)
    if -(2**63) <= number < 2**63:
        assert plain == number and type(plain) is int
    else:
        assert plain == (float(number) if abs(number) < 2**1023 else np.copysign(np.inf, number))
        assert type(plain) is float


def test_names_are_listed_up_to_a_number():
    names = list("abcde")
    assert [join_names(names[:n]) for n in (0, 1, 3, 4)] == ["", "a", "a, b, c", "a, b, c and 1 more"]
    assert join_names(names, 2, "; ") == "a; b and 3 more" and join_names(names, 5) == "a, b, c, d, e"
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert printable("a\tb\x00é") == "a?b?é"


def test_texts_are_cut_after_they_were_cleaned_keys_and_values_alike():
    """Only what exceeds four times the length is not looked at."""
    assert clean("\x1b[31m" * 2 + "abc", 4) == "abc" and clean("\x1b[31m" * 3 + "abc", 4) == "… (18 characters)"
    assert clean("a\n" * 8, 16) == "a " * 8 and clean_json({"k" * 9: ["v" * 9]}, 9) == {"k" * 9: ["v" * 9]}
    cut = clean_json({"k" * 99: ["v" * 99]}, 20)
    assert cut == {"k" * 3 + "… (99 characters)": ["v" * 3 + "… (99 characters)"]}
