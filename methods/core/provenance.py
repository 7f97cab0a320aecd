"""Which files a Python file is made of: what it imports, by its code. Nothing is run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from modulefinder import Module, ModuleFinder
from pathlib import Path
from typing import Any


def source_files(file: Path, packages: Mapping[Path, Path]) -> set[Path]:
    """The file, and the files of some packages that it imports, directly or by one of them, anywhere in their code.

    Sources in other languages count, too, where a file names one that lies in the folder `native` beside it. A file that
    does not compile imports nothing: Python could not run it either. Packages without `__init__.py` are not followed.

    Args:
        file: a Python file.
        packages: folders whose files count, each with the folder from which their modules are named.
    """
    finder = _PackageFinder(packages)
    root = next((root for folder, root in packages.items() if folder in file.parents), None)
    if root in (None, file.parent):
        finder.load_file(str(file))
    else:
        finder.import_hook(".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"))
    places = (getattr(module, "__file__", None) for module in finder.modules.values())
    found = {Path(place) for place in places if place}
    pairs = ((one, source) for one in found for source in _native_folder(one).glob("*") if source.is_file())
    return found | {source for one, source in pairs if source.name.encode() in one.read_bytes()}


def file_hashes(file: Path, packages: Mapping[Path, Path]) -> dict[str, str]:
    """Return the source files of a Python file by name, relative to their package's root, with the start of their SHA-256."""
    hashes = {}
    for source in source_files(file, packages):
        root = next((root for folder, root in packages.items() if folder in source.parents), source.parent)
        hashes[str(source.relative_to(root))] = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    return hashes


def _native_folder(file: Path) -> Path:
    """Folder with the compiled sources that a Python file may name: its own if that is `native`, else `native` beside it."""
    return file.parent if file.parent.name == "native" else file.parent / "native"


class _PackageFinder(ModuleFinder):
    """Keeps to the packages, and passes over what does not compile."""

    def __init__(self, packages: Mapping[Path, Path]) -> None:
        super().__init__(path=list(dict.fromkeys(map(str, packages.values()))))
        self.folders = tuple(packages)

    def find_module(self, name: str, path: Any, parent: Module | None = None) -> Any:
        """See `ModuleFinder.find_module`."""
        try:
            opened, place, kind = super().find_module(name, path, parent)
        except AttributeError:  # what it makes of a folder without `__init__.py`
            raise ImportError(name) from None
        if place is None or not any(folder == Path(place) or folder in Path(place).parents for folder in self.folders):
            if opened:
                opened.close()
            raise ImportError(name)
        return opened, place, kind

    def load_module(self, fqname: str, fp: Any, pathname: str, file_info: Any) -> Any:
        """See `ModuleFinder.load_module`."""
        try:
            return super().load_module(fqname, fp, pathname, file_info)
        except (SyntaxError, ValueError, RecursionError):
            module = self.add_module(fqname)
            module.__file__ = pathname  # type: ignore[attr-defined]
            return module
