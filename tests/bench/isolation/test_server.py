"""Server of a method process: measurements, statuses and messages of a call."""

import mmap
import sys
import time
import types

import numpy as np
import pytest

from bench.isolation import measure as measure_module
from bench.isolation import server
from bench.isolation.protocol import GaussiansRequest, MethodSetup, RegisterRequest
from common.errors import InputError
from common.kinds import DataKind
from common.text import clean
from methods.base import Method, NoSolution, Unavailable
from tests.catalog import build, spec

CLOUD = np.zeros((5, 3), np.float32)


class Event:
    """A CUDA event that takes the time of the emulated device when it is recorded."""

    def __init__(self, cuda, enable_timing):
        assert enable_timing
        self.cuda = cuda

    def record(self, stream):
        assert stream == "stream of cuda:0"
        self.ms = self.cuda.clock_ms

    def elapsed_time(self, end):
        return end.ms - self.ms


class Cuda(types.SimpleNamespace):
    """Stand-in for `torch.cuda` that refuses everything before it is initialised, as CUDA does."""

    def __init__(self, initialised=True):
        super().__init__(calls=[], fault=None, clock_ms=0.0, initialised=initialised)

    def is_initialized(self):
        return self.initialised

    def _call(self, name, device, result=None):
        if not self.initialised:
            raise RuntimeError(f"{name} before initialisation")
        if self.fault and name == "synchronise":
            raise RuntimeError(self.fault)
        self.calls.append((name, device))
        return result

    def reset_peak_memory_stats(self, device):
        self._call("reset", device)

    def memory_allocated(self, device):
        return self._call("allocated", device, 100 * 2**20)

    def max_memory_allocated(self, device):
        return self._call("peak", device, 350 * 2**20)

    def synchronize(self, device):
        self._call("synchronise", device)

    def current_stream(self, device):
        return f"stream of {device}"

    def Event(self, enable_timing):
        return Event(self, enable_timing)


@pytest.fixture
def cuda(monkeypatch):
    stand_in = Cuda()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=stand_in))
    return stand_in


REQUEST = RegisterRequest([CLOUD], [CLOUD], 0)


def test_growth_of_gpu_memory_is_measured_over_the_idle_state(cuda):
    method = build("identity")
    assert server.register(method, "cuda:0", REQUEST).gpu_memory_mb == 250
    assert [name for name, _ in cuda.calls] == ["reset", "allocated", "synchronise", "peak"]
    assert {device for _, device in cuda.calls} == {"cuda:0"}
    assert np.isnan(server.register(method, "cpu", REQUEST).gpu_memory_mb) and len(cuda.calls) == 4


def test_stages_on_the_cpu_are_measured_by_the_plain_clock():
    assert measure_module.stage_clock("cpu") is time.perf_counter


def test_nothing_touches_a_gpu_before_cuda_is_initialised(cuda):
    cuda.initialised = False
    method = build("identity")
    method.scratch.clock = measure_module.stage_clock("cuda:0")
    with method.stage("solve"):
        pass
    assert 0 <= method.scratch.stages["solve"] < 1
    reply = server.register(method, "cuda:0", REQUEST)
    assert reply.status == "ok" and np.isnan(reply.gpu_memory_mb) and measure_module.is_usable("cuda:0")


class OnGpu(Method):
    """A method whose call is a function in its state."""

    devices = ("cpu", "cuda")

    def register(self, source, target):
        with self.stage("solve"):
            return self.state["call"]()


def on_gpu(call):
    method = OnGpu()
    method.scratch.clock = measure_module.stage_clock("cuda:0")
    method.state["call"] = call
    return method


def raised(error):
    raise error


def test_the_clock_waits_for_the_gpu_after_errors_too(cuda):
    for error, status in ((NoSolution("none"), "no_solution"), (ValueError("wrong"), "error")):
        cuda.calls.clear()
        reply = server.register(on_gpu(lambda error=error: raised(error)), "cuda:0", REQUEST)
        assert reply.status == status and ("synchronise", "cuda:0") in cuda.calls


def test_stages_on_a_gpu_are_times_of_its_events_not_of_launches(cuda):
    def call():
        cuda.clock_ms += 40.0  # the device works, the host returns at once
        return np.eye(4)

    reply = server.register(on_gpu(call), "cuda:0", REQUEST)
    assert reply.stages == {"solve": pytest.approx(40.0)}


def test_a_fault_that_the_device_reports_late_fails_the_call(cuda):
    def call():
        cuda.fault = "CUDA error: an illegal memory access was encountered"
        return np.eye(4)

    reply = server.register(on_gpu(call), "cuda:0", REQUEST)
    assert (reply.status, reply.message) == ("error", f"RuntimeError: {cuda.fault}") and reply.stages == {}
    assert not measure_module.is_usable("cuda:0") and measure_module.is_usable("cpu")


def test_memory_is_the_growth_of_the_peak_over_the_idle_process(monkeypatch):
    files = {
        "statm": b"30000 25600 900 1 0 9000 0",
        "status": b"Name:\tpython\nVmHWM:\t  153600 kB\nVmRSS:\t  102400 kB\n",
    }
    events = []

    def read(file, size, offset):
        events.append(file)
        return files[file][offset : offset + size]

    monkeypatch.setattr(measure_module, "_proc", lambda name, mode: name)
    monkeypatch.setattr(measure_module, "_PAGE_MB", 4096 / 2**20)
    monkeypatch.setattr(measure_module.os, "pread", read)
    monkeypatch.setattr(measure_module.os, "pwrite", lambda file, data, offset: events.append((file, data, offset)))
    reply = server.register(build("identity"), "cpu", RegisterRequest([CLOUD], [CLOUD], 0))
    assert (reply.resident_mb, reply.peak_mb) == (150, 50) and np.isnan(reply.gpu_memory_mb)
    assert events == [("clear_refs", b"5", 0), "statm", "status"], "the peak is reset before, and read after the call"
    files["status"] = b"Name:\tpython\n"
    assert np.isnan(server.register(build("identity"), "cpu", REQUEST).peak_mb)


def test_memory_of_this_process_is_in_megabytes():
    import resource

    idle = measure_module._reset_peak()
    with mmap.mmap(-1, 50 * 2**20) as grown:  # an array might get memory that was freed before
        grown[:: mmap.PAGESIZE] = bytes(len(grown) // mmap.PAGESIZE)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        assert 0.1 * peak < idle and 45 < measure_module._peak_mb() - idle < 60


def failing(error):
    class Fails(Method):
        """Raise an error after a stage and a note."""

        def register(self, source, target):
            with self.stage("solve"):
                self.note(tries=np.int64(3), matrix=np.eye(2))
            raise error

    return Fails()


FAILURES = [
    (NoSolution("no pose"), "no_solution", "no pose"),
    (MemoryError("much"), "out_of_memory", "MemoryError: much"),
    (RuntimeError("cannot allocate memory"), "out_of_memory", "RuntimeError: cannot allocate memory"),
    (type("OutOfMemoryError", (RuntimeError,), {})("gpu"), "out_of_memory", "OutOfMemoryError: gpu"),
    (ValueError("first\nsecond"), "error", "ValueError: first"),
    (KeyboardInterrupt(), "error", "KeyboardInterrupt: "),
]


@pytest.mark.parametrize(("error", "status", "message"), FAILURES)
def test_a_failed_call_has_status_message_time_stages_and_notes(capfd, error, status, message):
    reply = server.register(failing(error), "cpu", RegisterRequest([CLOUD], [CLOUD], 0))
    assert (reply.status, reply.message, reply.pairs) == (status, message, [])
    assert reply.time_ms > 0 and set(reply.stages) == {"solve"}
    assert (
        reply.notes == {"tries": 3, "matrix": repr(np.eye(2)).replace("\n", " ")} and type(reply.notes["tries"]) is int
    )
    assert ("Traceback" in capfd.readouterr().err) == (status != "no_solution")


class Echo(Method):
    """Return the seed and the sizes of the clouds in a pose."""

    batched = True

    def register(self, source, target):
        T = np.eye(4)
        T[:3, 3] = self.seed, len(source), len(target)
        return T

    def register_batch(self, sources, targets):
        return [
            NoSolution("odd") if i % 2 else self.register(*pair)
            for i, pair in enumerate(zip(sources, targets, strict=True))
        ]

    def gaussians(self, source, target):
        return len(source), len(target)


def test_a_call_gets_its_clouds_and_its_seed_alone_and_in_a_batch():
    method, sizes = Echo(), [(4, 5), (6, 7), (8, 9)]
    clouds = [(np.zeros((n, 3)), np.zeros((m, 3))) for n, m in sizes]
    method.note(old=1)
    reply = server.register(method, "cpu", RegisterRequest([clouds[0][0]], [clouds[0][1]], 11))
    assert reply.status == "ok" and [p.pose[:3, 3].tolist() for p in reply.pairs] == [[11, 4, 5]] and reply.notes == {}
    reply = server.register(method, "cpu", RegisterRequest(*map(list, zip(*clouds, strict=True)), 12))
    assert [p.status for p in reply.pairs] == ["ok", "no_solution", "ok"] and reply.pairs[1].message == "odd"
    assert [p.pose[:3, 3].tolist() for p in reply.pairs[::2]] == [[12, 4, 5], [12, 8, 9]]
    assert server.gaussians(method, "cpu", GaussiansRequest(*clouds[1])).extra == (6, 7)
    assert server.HANDLERS[RegisterRequest] is server.register and server.HANDLERS[GaussiansRequest] is server.gaussians


@pytest.mark.parametrize("result", [np.eye(4).tolist(), np.eye(4, dtype=np.float32), np.eye(4, dtype=int)])
def test_a_rigid_matrix_is_sent_as_numbers(result):
    sent = server._pair_reply(result)
    assert (sent.status, sent.message) == ("ok", "")
    assert sent.pose.dtype == np.float64 and sent.pose.tolist() == np.eye(4).tolist()


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ([[1, 2], [3, 4]], "the pose has shape (2, 2), not (4, 4)"),
        ("text", "the pose is no matrix of numbers but str"),
        ({1: 2}, "the pose is no matrix of numbers but dict"),
        ("x" * 500, "the pose is no matrix of numbers but str"),
        (2 * np.eye(4), "the pose is not rigid: its last row is 0 0 0 2, not 0 0 0 1"),
    ],
)
def test_what_is_no_rigid_matrix_is_sent_as_invalid_with_its_fault(result, fault):
    sent = server._pair_reply(result)
    assert (sent.status, sent.message, sent.pose) == ("invalid", fault, None)


def test_the_fault_of_a_result_is_plain_text():
    name = "Coloured\x1b[31m"
    message = server._pair_reply(type(name, (), {})()).message
    assert message == clean(f"the pose is no matrix of numbers but {name}") and "\x1b" not in message


def test_notes_are_plain_values():
    notes = {"f": np.float32(0.5), "i": np.int8(3), "b": True, "n": None, "s": "text", "l": [1] * 200}
    plain = server.plain_notes(notes)
    assert plain == {"f": 0.5, "i": 3, "b": True, "n": None, "s": "text", "l": clean(repr([1] * 200), 200)}
    assert len(plain["l"]) == 200 and plain["l"].endswith("… (600 characters)")
    assert type(plain["f"]) is float and type(plain["i"]) is int and plain["b"] is True


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (None, "ok", ""),
        (Unavailable("no weights"), "unavailable", "no weights"),
        (InputError("bad field"), "input", "bad field"),
        (ValueError("wrong"), "error", "setup: ValueError: wrong"),
    ],
)
def test_a_setup_passes_its_fields_and_reports_how_it_ended(monkeypatch, capfd, error, status, message):
    seen = []

    class Setup(Method):
        """Note the arguments of the setup."""

        def setup(self, device, seed, domain):
            seen.append((device, seed, domain, self.seed))
            self.note(sha256="abc")
            if error:
                raise error

    of = spec("identity")
    monkeypatch.setattr(type(of), "build", lambda _: Setup())
    method, reply = server._set_up(MethodSetup(of, "modelnet40", "cuda:3", 2, 9))
    assert seen == [("cuda:3", 9, "modelnet40", 9)] and (reply.status, reply.message) == (status, message)
    assert (method is not None) == (status == "ok") and (reply.notes == {"sha256": "abc"}) == (status == "ok")
    monkeypatch.setattr(server, "missing_package", lambda _: "package missing")
    assert server._set_up(MethodSetup(of, "d"))[1].message == "package missing" and len(seen) == 1


def test_a_method_and_the_parts_of_a_chain_get_the_kind_of_the_data_before_setup(monkeypatch):
    method, _ = server._set_up(MethodSetup(spec("pca+icp"), "d", kind=DataKind.SCANS))
    assert [part.data_kind for part in (method, *method.parts)] == [DataKind.SCANS] * 3
    seen = []
    monkeypatch.setattr("methods.pca.PrincipalAxes.setup", lambda self, *_: seen.append(self.data_kind))
    server._set_up(MethodSetup(spec("pca"), "d", kind=DataKind.RANGE_IMAGES))
    server._set_up(MethodSetup(spec("pca"), "d"))
    assert seen == [DataKind.RANGE_IMAGES, DataKind.OBJECTS]
