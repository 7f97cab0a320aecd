"""Text for messages, and text from outside before it is stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_LISTED = 3
"""Maximum names listed in a message."""
MAX_CHARACTERS = 2000
"""Maximum length of a text that is stored."""
MAX_ENTRIES = 200
"""Maximum entries of a mapping or a list that is stored."""
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_SPACING = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
# Control characters, marks that reverse the direction of writing, lone surrogates, and noncharacters.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def join_names(names: Sequence[str], most: int = MAX_LISTED, separator: str = ", ") -> str:
    """Join the first names, followed by the number of the others.

    >>> join_names(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + rest


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> counted(1, "point"), counted(0, "point"), counted(2, "vertex", "vertices")
    ('1 point', '0 points', '2 vertices')
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def printable(text: str) -> str:
    """Replace control characters and others that a terminal cannot show, so that a message stays one line.

    >>> printable("a\\x1b[31m\\n")
    'a?[31m?'
    """
    return "".join(c if c.isprintable() else "?" for c in text)


def clean(text: str, most: int = MAX_CHARACTERS) -> str:
    r"""Return a text as one printable line that UTF-8 can encode, cut to `most` characters.

    Escape sequences of terminals are removed; line ends and tabs become a space, other unprintable characters U+FFFD.

    >>> clean("\x1b[31mno such file\x1b[0m:\n'a\udce4\x07'")
    "no such file: 'a\ufffd\ufffd'"
    >>> clean("ab" * 20, most=24)
    'abababa… (40 characters)'
    """
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    head = _ESCAPE_SEQUENCE.sub("", text[: 4 * most])
    head = _UNPRINTABLE.sub("\ufffd", _SPACING.sub(" ", head))
    if len(text) <= 4 * most and len(head) <= most:
        return head
    size = f"… ({len(text)} characters)"
    return head[: max(most - len(size), 0)] + size


def clean_json(value: Any, most: int = MAX_CHARACTERS) -> Any:
    """Return plain JSON values with clean texts; integers beyond 64 bits become floats, anything else its `repr`.

    Args:
        value: None, a number, a text, or a mapping or list of these. Instances of subclasses become the plain type.
        most: maximum length of a text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(str.__str__(value), most)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return _plain_integer(int.__int__(value))
    if isinstance(value, Mapping):
        return {clean(str(key), most): clean_json(entry, most) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(entry, most) for entry in value]
    return clean(repr(value), most)


def _plain_integer(value: int) -> int | float:
    if -(2**63) <= value < 2**63:
        return value
    return float(value) if value.bit_length() <= 1023 else float("inf") * (1 if value > 0 else -1)
