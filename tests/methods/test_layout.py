"""One method per file directly in `methods/`."""

from pathlib import Path

import methods
from methods.core import registry

CONTRACT = {"__init__.py", "base.py"}


def test_every_file_but_the_contract_is_a_method() -> None:
    folder = Path(methods.__file__).parent
    files = {file.name for file in folder.glob("*.py")} - CONTRACT
    assert files == {entry.file.name for entry in registry.available().values() if entry.file.parent == folder}
