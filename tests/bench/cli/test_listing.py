"""`bench.py list`: methods, weights, data sets."""

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
