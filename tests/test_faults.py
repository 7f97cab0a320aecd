"""Faults that are put into copies of the code: each changes it, and those that cannot change a result are left out."""

import ast
from pathlib import Path

import pytest

from performance import mutants
from performance.faults import EXCLUDED_KEYWORDS, EXCLUDED_NAMES, faults_of


def changes(folder: Path, code: str) -> set[tuple[str, str, str]]:
    (folder / "a.py").write_text(code, encoding="utf-8")
    return {(fault.kind, fault.before, fault.after) for fault in faults_of(folder, "a.py")}


@pytest.mark.parametrize("name", EXCLUDED_KEYWORDS)
def test_values_of_keywords_without_influence_are_neither_changed_nor_dropped(tmp_path: Path, name: str) -> None:
    dropped = ("dropped statement", f"f({name}=True)", "pass")
    assert changes(tmp_path, f"f({name}=True)") == {dropped}
    assert len(changes(tmp_path, "f(other=True)")) == 3


@pytest.mark.parametrize("name", EXCLUDED_NAMES)
def test_values_of_names_without_influence_are_not_changed(tmp_path: Path, name: str) -> None:
    assert changes(tmp_path, f"{name} = 12\nOTHER = 12\n") == {
        ("constant ± 1", "12", "13"),
        ("constant ± 1", "12", "11"),
    }


def test_every_fault_is_another_program_that_differs_at_its_place() -> None:
    file = "bench/storage/union.py"
    source = (mutants.ROOT / file).read_bytes()
    faults = faults_of(mutants.ROOT, file)
    changed = {fault.apply(source) for fault in faults}
    assert len(changed) == len(faults) > 50
    assert len({ast.unparse(ast.parse(code)) for code in changed} - {ast.unparse(ast.parse(source))}) == len(faults)
    for fault in faults:
        assert source[fault.start : fault.end].decode() == fault.before
        assert source[: fault.start].count(b"\n") + 1 == fault.line


def test_every_file_of_the_map_and_every_test_of_it_exists() -> None:
    files = {name.split("::")[0] for tests in mutants.TESTS.values() for name in tests} | set(mutants.TESTS)
    assert [name for name in sorted(files) if not (mutants.ROOT / name).is_file()] == []


def test_every_file_with_faults_has_tests() -> None:
    packages = ("bench", "common", "datasets", "methods")
    files = {str(file.relative_to(mutants.ROOT)) for name in packages for file in (mutants.ROOT / name).rglob("*.py")}
    assert [file for file in sorted(files - set(mutants.TESTS)) if faults_of(mutants.ROOT, file)] == []
