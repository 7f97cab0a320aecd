"""`python -m performance.gpu` on the CPU: the script itself works, and a part that fails is named."""

import json

import pytest

from performance import gpu


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr(gpu, "METHODS", ("deepgmr",))
    monkeypatch.setattr(gpu, "PAUSE_S", 0.0)


def test_every_part_but_the_run_works_on_the_cpu(tmp_path, monkeypatch, capsys):
    parts = [
        name for name in gpu.PARTS if name not in ("harness", "kernels")
    ]  # a run of bench.py, and a profile, take long
    monkeypatch.setattr("sys.argv", ["gpu", "cpu", "--parts", *parts, "--out", str(tmp_path)])
    assert gpu.main() == 0
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert list(found) == parts and found["facts"]["device"] == "cpu" and found["parity"]["deepgmr 200"] == 0
    assert found["waits"]["deepgmr"] == 0 and found["training"]["step"] > 0 and found["products"]["200"] > 0
    times = found["latency"]["deepgmr 200"]
    assert times["busy"]["least"] <= times["busy"]["median"] <= times["busy"]["p95"]
    lines = (tmp_path / "gpu.md").read_text().splitlines()
    assert lines[2].startswith(f"| `deepgmr`, 200 | {times['busy']['median']:.2f} | {times['idle']['median']:.2f} |")
    assert lines[2] in capsys.readouterr().out


def test_a_part_that_fails_is_named_and_ends_no_other(tmp_path, monkeypatch, capsys):
    def broken(setting):
        raise RuntimeError("no kernel\nmore")

    monkeypatch.setitem(gpu.PARTS, "parity", broken)
    monkeypatch.setattr("sys.argv", ["gpu", "cpu", "--parts", "parity", "facts", "--out", str(tmp_path)])
    assert gpu.main() == 1
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["parity"]["fault"] == "RuntimeError: no kernel" and found["facts"]["device"] == "cpu"
    assert "parity: RuntimeError: no kernel" in capsys.readouterr().out
