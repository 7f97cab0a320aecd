"""Errors a user can mend. `bench.cli.main` prints them as one line and exits with 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input. The message names the file or flag, the field and the mend, in one line."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An `InputError` for a name that does not exist, with the nearest names that do."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
    return InputError(f"unknown {kind} '{name}'; {hint}")
