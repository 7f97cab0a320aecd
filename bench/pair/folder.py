"""Folder of a pair's results: one without the results of other files, that can be written."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from pathlib import Path

from common.errors import InputError, storage_error
from common.text import clean

POSES = "poses.json"
"""File by which a folder with the results of a pair is recognised."""
SUBFOLDERS = ("poses", "aligned")
PROBE = bytes(4096)
"""Content of the files that test whether a folder can be written."""


def recorded_inputs(source: Path, target: Path) -> dict[str, str]:
    """Return the fields of `poses.json` that tell which files were registered.

    Names are as given, with U+FFFD for what UTF-8 cannot encode. The URIs are absolute, and ASCII for names of any bytes.
    """
    names = {"source": clean(str(source)), "target": clean(str(target))}
    return names | {"source_uri": _uri(source), "target_uri": _uri(target)}


def choose_folder(out: Path | None, source: Path, target: Path) -> tuple[Path, str]:
    """Return the folder to write to, and a remark if it is another than usual.

    Args:
        out: the folder that the user gave; None for the first of `pairs/SOURCE-TARGET`, `pairs/SOURCE-TARGET-2`, … that has no
            results of other files.
        source: file to move.
        target: file to register it to.

    Raises:
        InputError: `out` has the results of other files.
    """
    if out is not None:
        if other := _other_inputs(out, source, target):
            raise InputError(f"--out {out}: has the results of {other}; give another folder, or remove it")
        return out, ""
    usual = Path("pairs") / re.sub(r"[^\w.-]+", "-", f"{source.stem}-{target.stem}")
    if not (other := _other_inputs(usual, source, target)):
        return usual, ""
    numbered = (usual.with_name(f"{usual.name}-{number}") for number in itertools.count(2))
    folder = next(folder for folder in numbered if not _other_inputs(folder, source, target))
    return folder, f"{usual} has the results of {other}; these are written to {folder}"


def prepare(folder: Path) -> None:
    """Create a folder with its subfolders, and test that files can be written there.

    Raises:
        InputError: they cannot.
    """
    try:
        for part in (folder, *(folder / name for name in SUBFOLDERS)):
            part.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=part, prefix=".") as file:
                file.write(PROBE)
                file.flush()
    except OSError as error:
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: OSError) -> InputError:
    """Return the error for a folder that cannot be written."""
    if isinstance(error, FileExistsError):
        return InputError(f"--out {error.filename}: is a file; give another folder")
    if reason := storage_error(error, folder):
        return InputError(f"--out {reason}")
    return InputError(f"--out {folder}: cannot be written ({error.strerror or error}); give another folder")


def _other_inputs(folder: Path, source: Path, target: Path) -> str:
    """Name the files of the results in a folder, if they are not these two; empty without results."""
    if not (folder / POSES).is_file():
        return ""
    try:
        content = json.loads((folder / POSES).read_text(encoding="utf-8"))
        names = str(content["source"]), str(content["target"])
        uris = [content.get(f"{key}_uri", _uri(name)) for key, name in zip(("source", "target"), names, strict=True)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"another program or version ({POSES})"
    return "" if uris == [_uri(source), _uri(target)] else clean(" and ".join(names))


def _uri(file: str | Path) -> str:
    return Path(file).resolve().as_uri()
