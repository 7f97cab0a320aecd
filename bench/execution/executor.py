"""Run task batches in processes of this machine (loky) or on the workers of a Dask scheduler, both through joblib."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.execution import pool_worker
from bench.execution.context import RunContext
from bench.execution.pool_worker import Solved
from bench.isolation import guard, interrupt
from bench.isolation.protocol import Limits, MethodSetup, Reply
from bench.planning.tasks import Task
from bench.storage.outcome import Status
from bench.storage.run_json import weights_of
from common.errors import InputError
from common.text import join_names

CONNECT_TIMEOUT_S = 15


class WorkerLost(Exception):
    """A process of the pool died; the outcomes it had not returned are lost."""


def run_batches(batches: Iterable[list[Task]], context: RunContext, options: Mapping[str, Any]) -> Iterator[Solved]:
    """Yield what `pool_worker.solve_batch` returns for each task batch, in order of completion.

    Args:
        batches: of tasks.
        context: of the run.
        options: those that `worker_pool` yields.

    Raises:
        WorkerLost: a process of this machine's pool was killed. (A Dask scheduler gives its batch to another worker.)
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    parent = None if context.scheduler else os.getpid()
    pool = Parallel(return_as="generator_unordered", batch_size=1, **options)
    try:
        calls = (delayed(pool_worker.solve_batch)(batch, parent) for batch in batches if not interrupt.requested())
        for solved in pool(calls):
            yield from solved
    except BrokenProcessPool as error:
        raise WorkerLost(str(error).split("\n")[0]) from error


def check_workers(replies: Mapping[MethodSetup, Reply], limits: Limits, context: RunContext) -> dict[str, Any]:
    """Compare code and weights of all workers of a Dask scheduler with this process; return their machines.

    Args:
        replies: of the setup of each method in this process.
        limits: of a call.
        context: of the run; without a scheduler there is nothing to compare.

    Raises:
        InputError: a worker has other code or other weights of a method.
    """
    if not context.scheduler:
        return {}
    setups = [setup for setup, reply in replies.items() if reply.status == Status.OK]
    with _dask(context.scheduler) as client:
        replied = client.run(pool_worker.worker_facts, setups, limits)
    code = {setup.method.text: setup.method.source_hashes() for setup in setups}
    weights = {f"{setup.method} on {setup.domain}": weights_of(replies[setup].notes) for setup in setups}
    machines: dict[str, Any] = {}
    for worker, facts in replied.items():
        for what, own in (("code", code), ("weights", weights)):
            if other := [name for name in own if facts[what].get(name) != own[name]]:
                fix = "give all machines the same commit and the same weights"
                raise InputError(f"--scheduler: worker {worker} has other {what} of {join_names(other)}; {fix}")
        machines |= facts["machine"]
    return machines


@contextmanager
def worker_pool(context: RunContext) -> Iterator[dict[str, Any]]:
    """Yield options for joblib, by which all calls use the same workers; end their method processes afterwards."""
    if context.scheduler:
        from joblib import parallel_config

        with _dask(context.scheduler) as client, parallel_config(backend="dask", n_jobs=-1):
            yield {}
            client.run(pool_worker.close_all)
        return
    guard.start()  # before the workers, which inherit its mark
    try:
        yield {"backend": "loky", "n_jobs": context.jobs}
    finally:
        pool_worker.close_all()
        if context.jobs != 1:
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(wait=True, kill_workers=interrupt.requested())


def notify_workers() -> None:
    """Send SIGINT to the local pool workers, which then return their finished outcomes.

    As Ctrl-C in a terminal, the signal goes to this process's own process group; method processes have their own.
    """
    import psutil

    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == os.getpgrp():
                process.send_signal(signal.SIGINT)


@contextmanager
def _dask(scheduler: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise InputError("--backend dask: distributed is missing; pip install -r requirements-cluster.txt") from None
    try:
        client = Client(scheduler, timeout=CONNECT_TIMEOUT_S)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"--scheduler {scheduler}: no answer ({reason}); start one with: dask scheduler") from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise InputError(
                f"--scheduler {scheduler}: it has no workers; start one with: dask worker {scheduler} --nthreads 1"
            )
        yield client
