"""Pools of workers without their processes: what is compared, started, signalled and ended."""

import contextlib
import os
import signal
from types import SimpleNamespace

import psutil
import pytest
from joblib.externals import loky

from bench.execution import executor, pool_worker
from bench.isolation.protocol import MethodSetup, Reply
from common.errors import InputError
from methods.core.registry import MethodSpec
from tests.catalog import spec


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_local_pool_is_guarded_and_ended_whatever_happens(monkeypatch, jobs, fails, interrupted):
    """Workers are ended at once after an interrupt; with one job there are none."""
    calls = []
    pool = SimpleNamespace(shutdown=lambda **how: calls.append(how))
    monkeypatch.setattr(loky, "get_reusable_executor", lambda: pool)
    monkeypatch.setattr(executor.guard, "start", lambda: calls.append("guard"))
    monkeypatch.setattr(executor.interrupt, "requested", lambda: interrupted)
    monkeypatch.setattr(pool_worker, "close_all", lambda: calls.append("close"))
    with (
        contextlib.suppress(ZeroDivisionError),
        executor.worker_pool(SimpleNamespace(scheduler=None, jobs=jobs)) as options,
    ):
        assert options == {"backend": "loky", "n_jobs": jobs} and calls == ["guard"]
        if fails:
            raise ZeroDivisionError
    ended = [] if jobs == 1 else [{"wait": True, "kill_workers": interrupted}]
    assert calls == ["guard", "close", *ended]


@pytest.fixture
def workers(monkeypatch):
    """Two workers of a scheduler with the code and the weights of this process, which a test may change."""
    monkeypatch.setattr(MethodSpec, "source_hashes", lambda self: {f"{self}.py": "digest"})
    setup = MethodSetup(spec("icp"), "shapes40")
    code = {"icp": setup.method.source_hashes()}
    facts = {
        address: {"code": dict(code), "weights": {"icp on shapes40": "w"}, "machine": {address: {"cpu": address}}}
        for address in ("first", "second")
    }
    asked = []

    @contextlib.contextmanager
    def client(scheduler):
        yield SimpleNamespace(run=lambda *call: asked.append((scheduler, *call)) or facts)

    monkeypatch.setattr(executor, "_dask", client)
    monkeypatch.setattr(executor, "weights_of", lambda notes: "w")
    return SimpleNamespace(setup=setup, facts=facts, asked=asked)


def test_workers_have_our_code_and_weights(workers):
    other = MethodSetup(spec("pca"), "shapes40")
    replies = {workers.setup: Reply("ok"), other: Reply("error")}
    machines = executor.check_workers(replies, "limits", SimpleNamespace(scheduler="tcp://a"))
    assert machines == {"first": {"cpu": "first"}, "second": {"cpu": "second"}}
    assert workers.asked == [("tcp://a", pool_worker.worker_facts, [workers.setup], "limits")]
    assert executor.check_workers(replies, "limits", SimpleNamespace(scheduler=None)) == {}


@pytest.mark.parametrize(("what", "name"), [("code", "icp"), ("weights", "icp on shapes40")])
@pytest.mark.parametrize("value", [None, "other"])
@pytest.mark.parametrize("worker", ["first", "second"])
def test_a_worker_with_other_code_or_weights_is_named(workers, what, name, value, worker):
    workers.facts[worker][what] = {name: value} if value else {}
    with pytest.raises(InputError, match=f"worker {worker} has other {what} of {name}; give all machines"):
        executor.check_workers({workers.setup: Reply("ok")}, None, SimpleNamespace(scheduler="tcp://a"))


def test_an_interrupt_is_sent_to_the_workers_alone(monkeypatch):
    """Processes of methods have their own group; one that has ended meanwhile is no error."""
    sent = []

    def send(pid, number):
        if pid == 3:
            raise psutil.NoSuchProcess(3)
        sent.append((pid, number))

    children = [SimpleNamespace(pid=pid, send_signal=lambda number, pid=pid: send(pid, number)) for pid in range(1, 6)]
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(children=lambda: children))
    monkeypatch.setattr(os, "getpgid", lambda pid: pid if pid in (2, 4) else 100)
    monkeypatch.setattr(os, "getpgrp", lambda: 100)
    executor.notify_workers()
    assert sent == [(1, signal.SIGINT), (5, signal.SIGINT)]
