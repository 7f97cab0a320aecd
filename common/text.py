"""Text for messages."""

from __future__ import annotations

from collections.abc import Sequence

MAX_LISTED = 3
"""Maximum names listed in a message."""


def join_names(names: Sequence[str], most: int = MAX_LISTED, separator: str = ", ") -> str:
    """Join the first names, followed by the number of the others.

    >>> join_names(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + rest


def printable(text: str) -> str:
    """Replace control characters and others that a terminal cannot show, so that a message stays one line.

    >>> printable("a\\x1b[31m\\n")
    'a?[31m?'
    """
    return "".join(c if c.isprintable() else "?" for c in text)
