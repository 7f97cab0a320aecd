"""`bench.py new NAME`: write a working method and its test from templates."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from bench.planning.config import default_domain
from bench.storage.environment import ROOT
from common.errors import InputError
from common.plugins import RESERVED
from common.text import join_names
from methods.core.registry import MethodRegistry


def write_templates(name: str, plugins: Path | None) -> tuple[Path, Path]:
    """Write a method and its test into a plug-in folder, created if missing, or into `methods/` and `tests/`; return both paths.

    Raises:
        InputError: the name is taken or cannot name a module, or a file exists already or cannot be written.
    """
    _check_name(name, plugins)
    method = (plugins or ROOT / "methods") / f"{name}.py"
    test = (plugins or ROOT / "tests" / "methods") / f"test_{name}.py"
    words = {
        "name": name,
        "cls": "".join(part.capitalize() for part in name.split("_")),
        "title": name.replace("_", " ").capitalize(),
        "plugins": "Path(__file__).parent" if plugins else "None",
        "domain": default_domain(),
    }
    for file, template in ((method, "method.py.txt"), (test, "test.py.txt")):
        text = Template((files("bench.templates") / template).read_text(encoding="utf-8")).substitute(words)
        if plugins is None:
            text = text.replace("from pathlib import Path\n\n", "")
        _write(file, text)
    return method, test


def write_workflow(name: str, plugins: Path | None) -> Path:
    """Write a GitHub workflow for the repository whose folder of plug-ins is given, and return its path.

    Raises:
        InputError: there is no folder of plug-ins, or the file exists already or cannot be written.
    """
    if plugins is None:
        raise InputError("--workflow: is for the repository of a plug-in; give its folder with --plugins")
    text = (files("bench.templates") / "workflow.yml.txt").read_text(encoding="utf-8")
    file = plugins.parent / ".github" / "workflows" / "registration.yml"
    _write(file, Template(text).substitute(name=name, folder=plugins.name))
    return file


def _check_name(name: str, plugins: Path | None) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InputError(
            f"new {name}: use lower-case letters, digits and _, such as my_method; the name is that of a module"
        )
    if name in RESERVED:
        raise InputError(f"new {name}: the name is reserved, as {join_names(list(RESERVED))} are; choose another")
    if name in MethodRegistry(plugins if plugins and plugins.is_dir() else None).entries:
        raise InputError(f"new {name}: a method of that name exists; choose another")


def _write(file: Path, text: str) -> None:
    if file.exists():
        raise InputError(f"{file}: exists already; remove it or choose another name")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as handle:
            handle.write(text)
    except OSError as error:  # such as a file in the place of the folder
        raise InputError(f"{file}: cannot be written ({error}); give another --plugins") from error
