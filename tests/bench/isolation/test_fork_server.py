"""Method processes as copies of a fork server: what they share, what they do not, and how they end."""

import os
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest

from bench.isolation import fork_server, guard
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from tests.bench.waiting import FAULT_S, has_ended, wait_until
from tests.catalog import spec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies processes")
CLOUD = np.zeros((4, 3), np.float32)
REVEALING = """
import os, sys
import numpy as np
from methods.base import Method


class Revealing(Method):
    '''Note what the process has from the one that it is a copy of.'''

    requires = ("torch",)
    environment = {"BENCH_TEST_OWN": "1"}

    def register(self, source, target):
        self.note(drawn=float(np.random.random()), given=os.environ.get("BENCH_TEST_GIVEN", ""), own=os.environ["BENCH_TEST_OWN"])
        self.note(group=os.getpgrp() == os.getpid(), shared="torch" in sys.modules, seen=hasattr(np, "seen"))
        np.seen = True
        return np.eye(4)
"""


@pytest.fixture
def start(tmp_path):
    (tmp_path / "revealing.py").write_text(REVEALING)
    processes = []

    def start(name="revealing"):
        processes.append(MethodProcess(MethodSetup(spec(name, tmp_path), "blobs"), Limits(FAULT_S, 4)))
        assert processes[-1].start().status == "ok"
        return processes[-1]

    yield start
    for process in processes:
        process.close()


@pytest.fixture
def no_server(monkeypatch):
    """Let this process know of no server that it started before."""
    monkeypatch.setattr(fork_server, "_servers", {})
    monkeypatch.delenv(fork_server.ADDRESSES, raising=False)


def notes(process):
    return process.register(CLOUD, CLOUD, 0).notes


def test_copies_share_imports_and_nothing_else(start, monkeypatch):
    first, before = start(), notes(start())
    monkeypatch.setenv("BENCH_TEST_GIVEN", "later")
    second = start()
    after = notes(second)
    assert before.pop("drawn") != after.pop("drawn")
    expected = {"own": "1", "group": True, "shared": True, "seen": False}
    assert (before, after) == ({"given": ""} | expected, {"given": "later"} | expected)
    parents = {psutil.Process(process.process.pid).ppid() for process in (first, second)}
    assert len(parents) == 1 and parents != {os.getpid()}
    (server,) = parents
    assert os.getsid(server) == server, "Ctrl-C is for the process that started it"


def test_a_copy_that_is_closed_ends_and_the_others_go_on(start):
    first, second = start("identity"), start("identity")
    running = psutil.Process(first.process.pid)
    first.close()
    assert not running.is_running() and second.register(CLOUD, CLOUD, 0).status == "ok"
    assert second.process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        second.process.wait(0.01)


def test_a_copy_that_gets_no_more_requests_ends_as_a_process_that_succeeded(start):
    child = start("identity")
    child._requests.close()
    assert child.process.wait(FAULT_S) == 0


def test_copies_end_with_their_server_and_processes_start_without_it_afterwards(start, no_server):
    child = start("identity")
    os.kill(psutil.Process(child.process.pid).ppid(), signal.SIGKILL)
    assert child.process.wait(FAULT_S) == -signal.SIGKILL
    assert child.register(CLOUD, CLOUD, 0).status == "ok" and isinstance(child.process, subprocess.Popen)


def test_a_copy_whose_server_is_lost_has_ended_once_its_exit_code_is_known(start):
    """The server's connections close some moments before the system ends its copies."""
    child = start("identity").process
    copy = psutil.Process(child.pid)
    own, other = socket.socketpair()
    other.close()
    child._status, status = own, child._status
    assert child.wait(FAULT_S) == -signal.SIGKILL
    assert has_ended(copy)
    status.close()


def test_copies_and_server_end_with_the_process_that_started_them(start, no_server):
    """A process that is killed closes its connections: so does this one here."""
    child = start("identity")
    copy = psutil.Process(child.process.pid)
    server = copy.parent()
    (connection,) = fork_server._servers.values()
    connection.close()
    os.kill(copy.pid, signal.SIGSTOP)
    wait_until(lambda: has_ended(copy))
    wait_until(lambda: has_ended(server))


def test_a_process_with_a_second_thread_is_not_copied():
    """The request gets no answer: what it brought is closed."""
    client, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    with client, control, own, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with status:
            socket.send_fds(client, [b"[]"], [status.fileno()])
        server = fork_server._Server(control, listener)
        assert server._answer(control) and not server.copies
        assert own.recv(1) == b""
    ended.set()
    thread.join()


def test_another_user_is_not_served(monkeypatch):
    _, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with control, connection, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("")
        listener.listen()
        server = fork_server._Server(control, listener)
        connection.connect(listener.getsockname())
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
        server._accept()
        assert not server.clients and connection.recv(1) == b""


SHARING = """
import os
import numpy as np
import psutil
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.isolation import guard
from tests.catalog import spec

if os.environ.get("BENCH_TEST_PARENT"):
    guard.end_with_parent(int(os.environ["BENCH_TEST_PARENT"]))  # a worker of the command
child = MethodProcess(MethodSetup(spec("identity"), "blobs"), Limits(60, 4))
assert child.start().status == "ok"
print(child.process.pid, psutil.Process(child.process.pid).ppid(), flush=True)
input()
"""


def start_elsewhere(**variables):
    """Start a method in another process; return that process, the method's and the server that was copied."""
    environment = os.environ | {"PYTHONPATH": str(guard.ROOT)} | variables
    arguments = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    process = subprocess.Popen([sys.executable, "-c", SHARING], **arguments)
    return process, *(psutil.Process(int(pid)) for pid in process.stdout.readline().split())


def test_a_worker_uses_the_server_of_its_command_and_another_command_does_not(start, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(guard.ROOT))
    own = start("identity")
    server = psutil.Process(own.process.pid).parent()
    worker, copy, used_by_worker = start_elsewhere(BENCH_TEST_PARENT=str(os.getpid()))
    command, _, used_by_command = start_elsewhere()
    assert used_by_worker == server != used_by_command
    worker.kill()
    wait_until(lambda: not copy.is_running())
    assert server.is_running() and own.register(CLOUD, CLOUD, 0).status == "ok"
    for process in (worker, command):
        process.kill()
        process.communicate()


def test_a_copy_that_ends_before_it_serves_is_replaced_by_a_process_of_its_own(start, no_server, monkeypatch):
    """Its exit code comes where its process id is expected."""
    receive = fork_server._receive

    def end(status):
        fork_server._kill(int(receive(status).removeprefix(b"pid ")))  # before it reads a request
        return b"-9"

    monkeypatch.setattr(fork_server, "_receive", end)
    process = start()
    assert isinstance(process.process, subprocess.Popen)
    assert process.register(CLOUD, CLOUD, 0).status == "ok"


@pytest.mark.parametrize("end", [MethodProcess.close, lambda child: os.kill(child.process.pid, signal.SIGKILL)])
def test_a_copy_that_has_ended_leaves_no_descriptor_open(start, end):
    """Neither here, nor in the server, nor in the next copy."""
    first = start("identity")
    copies = psutil.Process(first.process.pid), psutil.Process(start("identity").process.pid)
    assert len({copy.num_fds() for copy in copies}) == 1
    processes = psutil.Process(), copies[0].parent()
    before = [process.num_fds() for process in processes]
    for _ in range(3):
        child = start("identity")
        end(child)
        child.close()
    wait_until(lambda: [process.num_fds() for process in processes] == before)


def test_a_killed_copy_leaves_no_descriptor_open():
    before = psutil.Process().num_fds()
    process = subprocess.Popen(["sleep", "60"])
    fork_server._kill(process.pid)
    assert process.wait(FAULT_S) == -signal.SIGKILL and psutil.Process().num_fds() == before
    fork_server._kill(process.pid)  # which is gone
    assert psutil.Process().num_fds() == before
