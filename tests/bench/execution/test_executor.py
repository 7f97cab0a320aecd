"""Dask cluster of two local worker processes, one of which is killed in the middle of a run."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

from bench.cli import main
from bench.isolation.guard import ROOT
from tests.bench.background_run import count_outcomes
from tests.bench.command_line import PLUGINS
from tests.bench.waiting import FAULT_S, wait_until

distributed = pytest.importorskip("distributed", reason="requirements-cluster.txt is not installed")


ARGUMENTS = (
    "--methods good lottery slow --datasets blobs --conditions noisy --points 60 --problems 40 --plugins".split()
)
ARGUMENTS += [str(PLUGINS)]


@pytest.fixture
def cluster(tmp_path):
    """Start a scheduler with two workers; yield its address and the workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    python = [sys.executable, "-m", "dask"]
    quiet = {"cwd": tmp_path, "env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    scheduler = subprocess.Popen([*python, "scheduler", "--port", str(port), *here], **quiet)
    worker = [*python, "worker", address, "--nthreads", "1", "--no-nanny", *here]
    workers = [subprocess.Popen(worker, **quiet) for _ in range(2)]
    with distributed.Client(address, timeout=FAULT_S) as client:
        client.wait_for_workers(2, timeout=FAULT_S)
    yield address, workers
    for process in (*workers, scheduler):
        process.kill()
        process.wait()


def test_a_run_survives_a_killed_worker_and_equals_a_local_one(cluster, tmp_path, monkeypatch, capsys):
    address, workers = cluster
    monkeypatch.chdir(tmp_path)
    far_away = [*ARGUMENTS, "--backend", "dask", "--scheduler", address, "--timing-rounds", "0", "--out", "other"]
    for what, target in {
        "code": "methods.core.registry.MethodSpec.source_hashes",
        "weights": "bench.execution.executor.weights_of",
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(target, lambda _: {"a": "changed"})
            assert main.main(far_away) == 2
        assert f"has other {what} of good" in capsys.readouterr().err
    monkeypatch.setattr("bench.report.begin_report", lambda *_, **__: list)

    def kill():
        wait_until(lambda: count_outcomes(tmp_path / "results" / "far" / "record.sqlite"))
        workers[0].kill()
        workers[0].wait()

    killer = threading.Thread(target=kill)
    killer.start()
    rest = ["--timing-rounds", "0", "--out"]
    assert main.main([*ARGUMENTS, "--backend", "dask", "--scheduler", address, *rest, "far"]) == 0
    killer.join()
    assert workers[0].poll() is not None and workers[1].poll() is None
    assert main.main([*ARGUMENTS, "--jobs", "1", *rest, "near"]) == 0
    far, near = (pd.read_csv(f"results/{n}/trials.csv").drop(columns=["time_ms", "peak_mb"]) for n in ("far", "near"))
    pd.testing.assert_frame_equal(far, near)
    assert len(far) == 120 and (far["status"] == "ok").all()
    assert set(far["machine"]) == set(json.loads(Path("results/far/run.json").read_text())["machines"])


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--backend", "dask"], "--scheduler tcp://HOST:PORT go together"),
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler tcp://HOST:PORT go together"),
        (["--backend", "dask", "--scheduler", "tcp://127.0.0.1:1"], "no answer"),
    ],
)
def test_missing_scheduler_is_one_line(flags, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.execution.executor.CONNECT_TIMEOUT_S", 1)
    assert main.main([*ARGUMENTS, "--timing-rounds", "0", "--out", "x", *flags]) == 2
    assert says in capsys.readouterr().err
