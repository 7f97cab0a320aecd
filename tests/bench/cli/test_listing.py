"""`bench.py list`: methods, weights, data sets."""

import json
from types import SimpleNamespace

import pytest

from bench.cli import listing, main
from tests.bench.command_line import PLUGINS

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_list_shows_kind_device_weights_licence_and_folder(capsys):
    assert main.main(["list", "--data", "mydata", "--plugins", str(PLUGINS)]) == 0
    lines = capsys.readouterr().out.splitlines()
    weights = lines.index("weights of learned methods")
    methods, data = lines[:weights], lines[next(i for i, t in enumerate(lines) if t.startswith("data sets")) :]
    rows = {line.split()[0]: line for line in methods + data if line.startswith("  ") and line[2] != " "}
    assert rows["icp"].split()[:3] == ["icp", "local", "cpu"] and "cpu, cuda" in rows["deepgmr"]
    assert "unavailable: " in rows["bad_unset"] or "bad_unset" in rows
    assert any("deepgmr_shapes40_noisy.safetensors: shapes40, noisy, 40 of 40" in line for line in lines)
    assert any("below mydata" in line for line in lines)
    after = lines[lines.index(rows["modelnet40"]) + 1]
    assert "not here, 435 MB to fetch; licence: research use" in after
    assert "needs no files" in lines[lines.index(rows["shapes40"]) + 1]


def test_card_equals_that_read_by_the_library():
    from methods.learned.weights import read_card

    file = next(listing.WEIGHTS.glob("*.safetensors"))
    assert listing.card(file)["provenance"] == read_card(file).provenance


def test_files_are_where_the_name_the_path_or_a_folder_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "data"

    def facts(path=None, folders=()):
        return SimpleNamespace(path=path, folders=folders, bytes=5e6, licence="", where="ask", summary="Scans.")

    states = {
        "needs no files": facts(),
        "needs a path": facts(""),
        "not here": facts("own", ("one", "two")),
    }
    for state, given in states.items():
        assert listing.state_of("set", given, root) == state
    for place in (root / "set", root / "own", tmp_path / "own", root / "two"):
        place.mkdir(parents=True)
        assert listing.state_of("set", states["not here"], root) == "found"
        place.rmdir()
    missing = f"{'set':20} Scans.\n{'':21}not here, 5 MB to fetch; licence: not known\n{'':21}ask"
    assert listing.dataset_line("set", states["not here"], root) == missing
    assert listing.dataset_line("set", facts(), root) == f"{'set':20} Scans.\n{'':21}needs no files; licence: not known"
    assert listing.dataset_line("set", facts(""), root).endswith(f"needs a path; licence: not known\n{'':21}ask")
    (root / "set").mkdir()
    assert listing.dataset_line("set", facts("own"), root).endswith(f"{'':21}found; licence: not known")


def test_variants_of_a_class_show_the_parameters_in_which_they_differ():
    def entry(class_name, **parameters):
        facts = SimpleNamespace(file="m.py", class_name=class_name, kind="local", devices=("cpu",), summary="Do it.")
        facts.parameters = {"trim": 0.1, **parameters}
        return SimpleNamespace(facts=facts, unavailable=lambda: None)

    entries = {
        "few": entry("Ransac", iterations=10),
        "many": entry("Ransac", iterations=1000),
        "other": entry("Icp", steps=3),
    }
    few, many, other = listing.method_lines(entries)
    assert few.endswith("Do it. [iterations=10]") and many.endswith("Do it. [iterations=1000]")
    assert other.endswith("Do it.")


def test_lines_of_methods_weights_and_classes(tmp_path):
    def entry(reason):
        facts = SimpleNamespace(kind="local", devices=("cpu", "cuda"), summary="Do it.")
        return SimpleNamespace(facts=facts, unavailable=lambda: reason)

    assert listing.method_line("icp", entry(None)) == f"{'icp':20} {'local':8} {'cpu, cuda':10} Do it."
    assert listing.method_line("icp", entry("no")) == f"{'icp':20} {'local':8} {'cpu, cuda':10} unavailable: no"
    training = {"dataset": "d", "condition": "c", "categories": [1, 2], "dataset_categories": [1, 2, 3]}
    known = {"method": "m", "provenance": training | {"steps": 7, "batch": 8}}
    header = json.dumps({"__metadata__": {"card": json.dumps(known)}}).encode()
    file = tmp_path / "w.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2_000_000))
    assert listing.card(file) == known
    assert listing.weights_line(file) == f"{'m':20} w.safetensors: d, c, 2 of 3 categories, 7 steps of 8 pairs, 2.0 MB"
    assert listing.first_line(type("A", (), {"__doc__": "\n One.\n\nTwo."})) == "One."
    assert listing.first_line(type("A", (), {})) == "has no docstring"
