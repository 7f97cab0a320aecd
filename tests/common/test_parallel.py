"""Work in other processes."""

import multiprocessing
import os
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest

from common import parallel
from common.errors import InputError
from common.parallel import begin, parallel_map


def test_a_small_map_is_computed_in_this_process_when_its_results_are_asked_for():
    assert list(parallel_map(abs, [3, -2, 1], False)) == [3, 2, 1]
    called = []
    lazy = parallel_map(called.append, [1, 2], False)
    assert called == [] and next(lazy) is None and called == [1]


def test_on_one_processor_no_process_starts(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert begin(os.getpid, True)() == os.getpid()
    assert next(parallel_map(lambda _: os.getpid(), [0], True)) == os.getpid()


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_large_map_keeps_the_order_and_is_computed_elsewhere(monkeypatch, start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {start}")
    monkeypatch.setattr(parallel, "START", start)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert list(parallel_map(divmod_of_7, range(40), True)) == [divmod(n, 7) for n in range(40)]
    assert begin(os.getpid, True)() != os.getpid()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_arrays_frames_and_texts_come_back_from_a_process_as_they_are(monkeypatch, start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {start}")
    monkeypatch.setattr(parallel, "START", start)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    frame, *arrays = begin(made_arrays, True)()
    expected, *others = made_arrays()
    pd.testing.assert_frame_equal(frame, expected)
    for array, other in zip(arrays, others, strict=True):
        assert array.dtype == other.dtype and array.shape == other.shape
        np.testing.assert_array_equal(array, other)


def made_arrays():
    grid = np.arange(1_200_000.0).reshape(300, 4000)
    texts = np.array(["a", None, "é\udce4"], dtype=object)
    frame = pd.DataFrame({"x": [1.5, np.nan], "kind": pd.Categorical(["b", None]), "text": ["p", "q"]})
    return frame, grid, np.asfortranarray(grid), grid[::2, ::3], np.zeros((0, 3)), np.int8([1]), texts


def divmod_of_7(number):
    return divmod(number, 7)


def test_maps_at_the_same_time_compute_all_of_their_results(monkeypatch):
    """Each has its counter in shared memory, which must live as long as its processes."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    maps = [parallel_map(partial(wait_and_add, add), range(6), True) for add in (0, 100, 200)]
    assert [list(results) for results in maps] == [[*range(6)], [*range(100, 106)], [*range(200, 206)]]


def wait_and_add(add, number):
    time.sleep(0.02)
    return add + number


def test_what_a_process_raises_is_raised_here_and_its_death_is_told(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(InputError, match=r"^b: broken$"):
        list(parallel_map(refuse, ["a", "b", "c"], True))
    with pytest.raises(RuntimeError, match="ended with code 3"):
        begin(partial(os._exit, 3), True)()


def refuse(name):
    if name == "b":
        raise InputError(f"{name}: broken")
    return name


@pytest.mark.skipif(parallel.START != "fork", reason="the script below has no guard of its main part")
def test_processes_take_no_more_work_after_their_caller_was_killed(tmp_path):
    script = f"""
import os, time
from pathlib import Path
from common.parallel import parallel_map
os.cpu_count = lambda: 2
def work(number):
    time.sleep(0.1)
    Path({str(tmp_path)!r}, str(number)).touch()
list(parallel_map(work, range(1000), True))
"""
    caller = subprocess.Popen([sys.executable, "-c", script])
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    caller.kill()
    caller.wait()
    children_end = time.monotonic() + 60
    before = -1
    while before != (now := len(list(tmp_path.iterdir()))) and time.monotonic() < children_end:
        before = now
        time.sleep(2)
    assert 2 <= now < 1000 and now == before
