"""One method per file directly in `methods/`."""

import inspect
import re
from pathlib import Path

import methods
from methods.base import Method
from methods.core.registry import MethodRegistry

CONTRACT = {"__init__.py", "base.py"}


def test_every_file_but_the_contract_is_a_method() -> None:
    folder = Path(methods.__file__).parent
    files = {file.name for file in folder.glob("*.py")} - CONTRACT
    assert files == {entry.file.name for entry in MethodRegistry().entries.values() if entry.file.parent == folder}


def test_what_a_class_states_about_its_call_holds() -> None:
    """Methods that take an initial pose are local, those that draw numbers are random, those with a `register_batch` batched.

    Of a method that withdraws the batches of its base class, the class itself says so.
    """
    entries = [
        entry for entry in MethodRegistry().entries.values() if entry.file.parent == Path(methods.__file__).parent
    ]
    assert len(entries) > 20
    for entry in entries:
        assert entry.cls.local == ("init" in inspect.signature(entry.cls.register).parameters), entry.cls
        draws = re.search(r"self\.(rng|seed)\b", inspect.getsource(entry.cls))
        assert entry.cls.random or not draws, entry.cls
        has_batch = entry.cls.register_batch is not Method.register_batch and vars(entry.cls).get("batched", True)
        assert entry.cls.batched == has_batch, entry.cls
        assert entry.cls.kind in ("local", "global", "learned", "control"), entry.cls


def test_search_ranges_are_of_parameters_that_a_class_has() -> None:
    assert {name: entry.facts.search_fault for name, entry in MethodRegistry().entries.items()} == dict.fromkeys(
        MethodRegistry().entries, ""
    )
