"""`bench.py draw gmm`: the figure of a run, and messages if it cannot be drawn."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.cli import main

PLUGINS = Path(__file__).parents[1] / "plugins"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a finished run of three problems; its report isn't drawn."""
    folder = tmp_path_factory.mktemp("draw")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("bench.report.begin_report", lambda *_: list)
        words = "--methods halves,good --datasets blobs --conditions noisy --points 60 --problems 3 --timing-rounds 0"
        assert main.main([*words.split(), "--jobs", "1", "--plugins", str(PLUGINS), "--out", "r"]) == 0
    return folder


@pytest.fixture
def draw(run, monkeypatch):
    monkeypatch.chdir(run)
    return lambda *words: main.main(["draw", "gmm", "r", *words, "--plugins", str(PLUGINS)])


def test_the_first_method_with_mixtures_is_drawn(draw, run, capsys):
    assert draw("blobs/noisy/60/00000", "blobs/noisy/60/00002") == 0
    files = [run / line for line in capsys.readouterr().out.splitlines()]
    assert [f.suffix for f in files] == [".png", ".svg", ".pdf", ".txt"] and "halves" in files[0].name
    pixels = np.asarray(Image.open(files[0]).convert("RGB")).reshape(-1, 3)
    coloured = pixels[np.ptp(pixels, axis=1) > 60]
    assert len(coloured) > 300 and len({tuple(p) for p in coloured // 64}) > 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("blobs/noisy/60/7",), "not a problem of this run; its trials.csv lists them, such as blobs/noisy/60/00000"),
        (("blobs/noisy/60/00000", "--method", "good"), "good: it matches no Gaussians"),
        (("blobs/noisy/60/00000", "--method", "gud"), "unknown method 'gud'"),
        (("blobs/noisy/60/00000", "--method", "shatters"), "shatters: the process ended with exit code 3"),
    ],
)
def test_what_can_not_be_drawn(draw, capsys, words, message):
    assert draw(*words) == 2
    assert message in capsys.readouterr().err
