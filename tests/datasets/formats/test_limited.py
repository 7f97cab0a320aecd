"""The child process that reads files: limits of time and memory, crashes, and its end."""

import os
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from common.errors import MalformedFile
from datasets.formats import limited, server
from datasets.formats.geometry import Geometry, cloud
from datasets.formats.text import NoTable


def sleeping(file: Path) -> Geometry:
    time.sleep(60)
    return cloud(np.zeros((3, 3)))


def growing(file: Path) -> Geometry:
    return cloud(np.ones((10**9, 3)))


def crashing(file: Path) -> Geometry:
    os._exit(3)


def confused(file: Path) -> Geometry:
    raise KeyError("a\nb")


def good(file: Path) -> Geometry:
    return cloud(np.eye(3, dtype=np.float32) + 5, {"red": np.arange(3, dtype=np.uint8)}, "a remark")


@pytest.fixture
def file(tmp_path):
    (tmp_path / "a.xyz").write_text("1 2 3\n")
    return tmp_path / "a.xyz"


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        (sleeping, "takes longer than 1 s to read"),
        (growing, "needs more than 2 GB of memory to read"),
        (crashing, "its reader crashed"),
        (confused, r"is damaged, or no \.xyz file$"),
    ],
)
def test_a_reader_beyond_its_limits_is_one_line_and_the_next_file_is_read(file, monkeypatch, reader, message):
    monkeypatch.setattr(limited, "MIN_SECONDS", 1.0 if reader is sleeping else 20.0)
    with pytest.raises(MalformedFile, match=message):
        limited.read_geometry(reader, file)
    monkeypatch.setattr(limited, "MIN_SECONDS", 20.0)
    geometry = limited.read_geometry(good, file)
    assert geometry.points[0].tolist() == [6, 5, 5] and geometry.columns["red"].tolist() == [0, 1, 2]
    assert geometry.remarks == ("a remark",) and 0 < geometry.step < 1e-6


def test_one_child_reads_all_files_and_ends_when_closed(file):
    limited.read_geometry(good, file)
    child = limited._CHILD.process.pid
    limited.read_geometry(good, file)
    assert limited._CHILD.process.pid == child
    limited._CHILD.close()
    assert not psutil.pid_exists(child)


def test_a_sparse_file_does_not_raise_the_limits(tmp_path):
    with (tmp_path / "a.npy").open("wb") as handle:
        handle.truncate(10**12)
    assert limited._size_on_disk(tmp_path / "a.npy") < 10**6


@pytest.mark.parametrize(
    ("size", "seconds", "most"),
    [(0, 20, 2e9), (200_000_000, 20, 2e9), (250_000_000, 25, 2e9), (300_000_000, 30, 2.4e9)],
)
def test_a_second_for_10_mb_and_eight_times_the_size_in_memory_are_allowed(file, monkeypatch, size, seconds, most):
    requests = []
    monkeypatch.setattr(limited, "_size_on_disk", lambda _: size)
    monkeypatch.setattr(limited.Child, "_exchange", lambda _, request: requests.append(request) or ({}, {}))
    limited.Child().call(good, file, "a", "b")
    (request,) = requests
    assert (request["seconds"], request["bytes"]) == (seconds, most)
    assert (request["function"], request["file"], request["arguments"]) == (f"{__name__}:good", str(file), ("a", "b"))


@pytest.mark.parametrize(("kind", "error"), [("NoTable", NoTable), ("MalformedFile", MalformedFile)])
def test_an_error_of_the_child_has_its_class_and_its_message_a_fix(file, monkeypatch, kind, error):
    monkeypatch.setattr(limited.Child, "_exchange", lambda *_: ({"error": "is odd", "kind": kind}, {}))
    with pytest.raises(MalformedFile, match=r"^is odd$") as raised:
        limited.Child().call(good, file)
    assert type(raised.value) is error
    assert limited.with_fix(raised.value, "fix it") == "is odd; fix it"
    assert limited.with_fix(ValueError("bad\n \x1b; save it"), "fix it") == "bad ?; save it"
    assert limited.with_fix(ValueError("x" * 400), "f") == "x" * 300 + "; f"


@pytest.mark.parametrize(("seconds", "alarm"), [(0.5, 5), (2.9, 7), (60, 65)])
def test_the_child_ends_itself_some_seconds_after_the_limit_and_dumps_no_memory(monkeypatch, seconds, alarm):
    import resource

    set_to = {}
    monkeypatch.setattr(server.signal, "alarm", lambda after: set_to.update(alarm=after))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (7, 9))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: set_to.update({kind: limits}))
    server._limit(seconds, 12345)
    assert set_to == {"alarm": alarm, resource.RLIMIT_AS: (12345, 9), resource.RLIMIT_CORE: (0, 9)}
    monkeypatch.setattr(resource, "setrlimit", lambda *_: (_ for _ in ()).throw(ValueError("not allowed")))
    server._limit(seconds, 12345)
