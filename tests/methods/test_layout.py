"""One method per file directly in `methods/`."""

from pathlib import Path

import methods
from methods.core.registry import MethodRegistry

CONTRACT = {"__init__.py", "base.py"}


def test_every_file_but_the_contract_is_a_method() -> None:
    folder = Path(methods.__file__).parent
    files = {file.name for file in folder.glob("*.py")} - CONTRACT
    assert files == {entry.file.name for entry in MethodRegistry().entries.values() if entry.file.parent == folder}
