"""Pools of workers without their processes: what is compared, started, signalled and ended."""

import contextlib
import os
import signal
import sys
from types import SimpleNamespace

import joblib
import psutil
import pytest
from joblib.externals import loky
from joblib.externals.loky.process_executor import BrokenProcessPool

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


class Pool:
    """A pool of joblib that makes the calls at once, in reverse, or breaks after the first."""

    options: dict = {}
    breaks = False

    def __init__(self, **options):
        Pool.options = options

    def __call__(self, calls):
        made = [function(*arguments, **named) for function, arguments, named in calls]
        for number, result in enumerate(reversed(made)):
            if self.breaks and number:
                raise BrokenProcessPool("killed\nand more")
            yield result


@pytest.mark.parametrize("scheduler", ["", "tcp://a"])
def test_batches_are_solved_by_the_pool_with_its_options_until_ctrl_c(monkeypatch, scheduler):
    """Workers of this machine end with this process; those of a scheduler do not."""
    given, asked = [], []
    monkeypatch.setattr(joblib, "Parallel", Pool)
    monkeypatch.setattr(pool_worker, "solve_batch", lambda batch, parent: given.append(parent) or [f"{batch} 1", batch])
    monkeypatch.setattr(executor.interrupt, "requested", lambda: asked.append(1) or len(asked) > 2)
    context = SimpleNamespace(scheduler=scheduler)
    solved = list(executor.run_batches(iter("abcd"), context, {"n_jobs": 3}))
    assert solved == ["b 1", "b", "a 1", "a"] and given == [None if scheduler else os.getpid()] * 2
    assert Pool.options == {"return_as": "generator_unordered", "batch_size": 1, "n_jobs": 3}


def test_a_lost_worker_ends_the_batches_after_those_that_came_back(monkeypatch):
    monkeypatch.setattr(joblib, "Parallel", Pool)
    monkeypatch.setattr(Pool, "breaks", True)
    monkeypatch.setattr(pool_worker, "solve_batch", lambda batch, parent: [batch])
    batches = executor.run_batches("ab", SimpleNamespace(scheduler=""), {})
    assert next(batches) == "b"
    with pytest.raises(executor.WorkerLost, match=r"^killed$"):
        next(batches)


@pytest.fixture
def cluster(monkeypatch):
    """A scheduler of Dask with workers, to which the clients that are made are written down."""
    cluster = SimpleNamespace(workers={"w": {}}, clients=[], error=None, ended=[], run=[])

    class Client:
        def __init__(self, address, timeout):
            cluster.clients.append((address, timeout))
            if cluster.error:
                raise cluster.error

        def scheduler_info(self):
            return {"workers": cluster.workers}

        def run(self, function):
            cluster.run.append(function)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            cluster.ended.append(True)

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
    return cluster


def test_a_pool_of_a_scheduler_is_used_through_joblib_and_its_processes_are_closed(cluster, monkeypatch):
    configured = []
    monkeypatch.setattr(
        joblib, "parallel_config", lambda **options: configured.append(options) or contextlib.nullcontext()
    )
    with executor.worker_pool(SimpleNamespace(scheduler="tcp://a", jobs=9)) as options:
        assert options == {} and configured == [{"backend": "dask", "n_jobs": -1}] and not cluster.run
    assert cluster.run == [pool_worker.close_all] and cluster.clients == [("tcp://a", 15)] and cluster.ended == [True]


@pytest.mark.parametrize("error", [OSError("no\nroute"), ValueError("no\nroute"), None])
def test_a_scheduler_without_answer_or_workers_is_one_line(cluster, monkeypatch, error):
    cluster.error, cluster.workers = error, {}
    says = "no answer (no); start one with: dask scheduler"
    says = says if error else "it has no workers; start one with: dask worker tcp://a --nthreads 1"
    with pytest.raises(InputError) as caught, executor._dask("tcp://a"):
        pass
    assert str(caught.value) == f"--scheduler tcp://a: {says}" and cluster.ended == ([] if error else [True])
    monkeypatch.setitem(sys.modules, "distributed", None)
    says = r"distributed is missing; pip install -r requirements-cluster\.txt"
    with pytest.raises(InputError, match=says), executor._dask("tcp://a"):
        pass


def test_a_worker_tells_its_machine_and_the_code_and_weights_of_each_setup(monkeypatch):
    """Each method is set up in a separate process, and none of them is kept."""
    events = []

    class Process:
        def __init__(self, setup, limits):
            events.append(("start", str(setup.method), setup.domain, limits))

        def set_up(self, setup):
            return Reply(notes={"sha256": f"{setup.method} {setup.domain}", "other": 1})

        def close(self):
            events.append("close")

    monkeypatch.setattr(pool_worker, "MethodProcess", Process)
    monkeypatch.setattr(pool_worker, "_processes", {})
    monkeypatch.setattr(pool_worker, "machine", lambda: "id")
    monkeypatch.setattr(pool_worker, "machine_facts", lambda: {"cpu": "x"})
    monkeypatch.setattr(MethodSpec, "source_hashes", lambda self: {f"{self}.py": "digest"})
    setups = [MethodSetup(spec(name), domain) for name, domain in (("icp", "a"), ("icp", "b"), ("pca", "a"))]
    assert pool_worker.worker_facts(setups, "limits") == {
        "machine": {"id": {"cpu": "x"}},
        "code": {name: {f"{name}.py": "digest"} for name in ("icp", "pca")},
        "weights": {f"{s.method} on {s.domain}": {"sha256": f"{s.method} {s.domain}"} for s in setups},
    }
    assert events == [part for s in setups for part in (("start", str(s.method), s.domain, "limits"), "close")]
    assert pool_worker._processes == {}
