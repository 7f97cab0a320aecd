"""Source files of a method, hashed: a run records them, and so notices when a method's code has changed."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from modulefinder import Module, ModuleFinder
from pathlib import Path
from types import CodeType
from typing import Any


def source_files(file: Path, packages: Mapping[Path, Path]) -> set[Path]:
    """Find the source files a module depends on, transitively, without importing it.

    A source in another language counts if it lies in the folder `native` beside a Python file that names it. A file that
    does not compile has no imports. Namespace packages (without `__init__.py`) are not followed.

    Args:
        file: a Python file.
        packages: folders whose files count, each with the folder from which their modules are named.

    Returns:
        The file itself and its dependencies within `packages`.
    """
    finder = _PackageFinder(packages)
    root = next((root for folder, root in packages.items() if folder in file.parents), None)
    if root in (None, file.parent):
        finder.load_file(str(file))
    else:
        finder.import_hook(".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"))
    paths = (getattr(module, "__file__", None) for module in finder.modules.values())
    python_files = {Path(path) for path in paths if path}
    pairs = ((user, source) for user in python_files for source in _native_folder(user).glob("*") if source.is_file())
    return python_files | {source for user, source in pairs if source.name.encode() in user.read_bytes()}


def file_hashes(file: Path, packages: Mapping[Path, Path]) -> dict[str, str]:
    """Return the source files of a Python file by name, relative to their package's root, with the start of their SHA-256."""
    hashes = {}
    for source in source_files(file, packages):
        root = next((root for folder, root in packages.items() if folder in source.parents), source.parent)
        hashes[str(source.relative_to(root))] = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    return hashes


def _native_folder(file: Path) -> Path:
    """Return the folder of the compiled sources that a Python file may name: its own if named `native`, else `native/` in it."""
    return file.parent if file.parent.name == "native" else file.parent / "native"


class _PackageFinder(ModuleFinder):
    """Module finder that stays within some packages and skips files that do not compile."""

    def __init__(self, packages: Mapping[Path, Path]) -> None:
        super().__init__(path=list(dict.fromkeys(map(str, packages.values()))))
        self.folders = tuple(packages)

    def find_module(self, name: str, path: Any, parent: Module | None = None) -> Any:
        """See `ModuleFinder.find_module`."""
        try:
            handle, location, kind = super().find_module(name, path, parent)
        except AttributeError:  # raised by ModuleFinder for a folder without `__init__.py`
            raise ImportError(name) from None
        if location is None or not any(f == Path(location) or f in Path(location).parents for f in self.folders):
            if handle:
                handle.close()
            raise ImportError(name)
        return handle, location, kind

    def load_module(self, fqname: str, fp: Any, pathname: str, file_info: Any) -> Any:
        """See `ModuleFinder.load_module`."""
        if not pathname.endswith(".py"):
            return super().load_module(fqname, fp, pathname, file_info)
        module = self.add_module(fqname)
        module.__file__ = pathname  # type: ignore[attr-defined]
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            module.__code__ = _compiled(fp.read(), pathname)  # type: ignore[attr-defined]
            self.scan_code(module.__code__, module)  # type: ignore[attr-defined]
        return module

    def scan_opcodes(self, co: CodeType) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """See `ModuleFinder.scan_opcodes`."""
        return iter(_opcodes(co))


@cache
def _compiled(source: bytes, file: str) -> CodeType:
    """Compile a file; once for all methods that depend on it."""
    return compile(source, file, "exec")


@cache
def _opcodes(code: CodeType) -> list[tuple[str, tuple[Any, ...]]]:
    """Return what `ModuleFinder` looks at in a code object."""
    return list(ModuleFinder().scan_opcodes(code))
