"""Parts of work on threads: order, threads, gradients and errors."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from methods.nn.threads import chunks, max_threads, single_threaded, thread_map


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_are_in_the_order_of_the_parts(threads: int) -> None:
    torch.set_num_threads(threads)
    assert thread_map(lambda i: time.sleep(0.001 * (i % 3)) or i, range(20)) == list(range(20))
    assert thread_map(lambda i: i, []) == []


def test_each_part_has_one_thread_and_nested_parts_stay_on_it() -> None:
    torch.set_num_threads(3)

    def work(_: int) -> set[int]:
        time.sleep(0.01)
        assert torch.get_num_threads() == 1 and max_threads() == 1
        return set(thread_map(lambda _: threading.get_ident(), range(4))) | {threading.get_ident()}

    results = thread_map(work, range(12))
    assert all(len(own) == 1 for own in results) and 1 < len(set.union(*results)) <= 3
    assert torch.get_num_threads() == 3


def test_single_threaded_leaves_threads_to_thread_map() -> None:
    torch.set_num_threads(2)
    with single_threaded(max_threads()):
        assert torch.get_num_threads() == 1 and max_threads() == 2
        assert len({*thread_map(lambda _: time.sleep(0.02) or threading.get_ident(), range(6))}) == 2
    assert torch.get_num_threads() == max_threads() == 2


def test_no_gradient_and_the_mode_of_the_asking_thread() -> None:
    torch.set_num_threads(2)
    leaf = torch.ones(3, requires_grad=True)
    assert not any(x.requires_grad for x in thread_map(lambda i: time.sleep(0.01) or leaf * i, range(4)))
    with torch.inference_mode():
        assert all(thread_map(lambda _: time.sleep(0.01) or torch.is_inference_mode_enabled(), range(4)))


@pytest.mark.parametrize("bad", [0, 5])
def test_an_error_comes_through_and_the_threads_are_as_before(bad: int) -> None:
    torch.set_num_threads(2)

    def work(i: int) -> None:
        time.sleep(0.01)
        if i == bad:
            raise ValueError(f"part {i}")

    with pytest.raises(ValueError, match=f"part {bad}"):
        thread_map(work, range(6))
    assert torch.get_num_threads() == max_threads() == 2


@pytest.mark.parametrize(("points", "rows"), [(10, 10), (11, 10), (30, 10), (31, 10), (1, 5), (1000, 7)])
def test_chunks_cover_each_cloud_once_in_about_equal_parts(points: int, rows: int) -> None:
    parts = chunks(3, points, rows)
    for cloud in range(3):
        own = [part.rows for part in parts if part.cloud == cloud]
        assert [i for part in own for i in range(points)[part]] == list(range(points))
        sizes = [part.stop - part.start for part in own]
        assert max(sizes) <= rows and max(sizes) - min(sizes) <= 1 and len(own) == -(-points // rows)
    assert [part.cloud for part in parts] == sorted(part.cloud for part in parts)
