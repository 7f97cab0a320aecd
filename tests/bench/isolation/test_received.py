"""Replies of a method's process: of known types, of that process, to that request; plain values in clean text."""

import dataclasses
import pickle

import numpy as np
import pytest

from bench.isolation import received
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import (
    Limits,
    MethodSetup,
    PairReply,
    RegisterRequest,
    Reply,
    pack_reply,
    pack_request,
    unpack_request,
)
from tests.bench.waiting import FAULT_S
from tests.catalog import spec


def sent(reply, number=3, process_id=7):
    return pack_reply(number, process_id, reply)


class Elsewhere:
    """A class that no reply contains."""

    def __reduce__(self):
        return print, ("code of a plug-in ran here",)


def test_a_reply_with_another_class_is_refused_and_runs_nothing(capsys):
    with pytest.raises(received.BadReply, match=r"the reply contains builtins\.print"):
        received.parse_reply(sent(Reply(notes={"a": Elsewhere()})), 3, 7)
    assert capsys.readouterr().out == ""


FIELDS = {f.name for f in dataclasses.fields(Reply)}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        pickle.dumps(Reply()),
        pickle.dumps((3, 7, None)),
        pickle.dumps((3, 7, dict.fromkeys(FIELDS, 0.0))),
        pickle.dumps((3, 7, vars(Reply()) | {"status": "fine"})),
        pickle.dumps((3, 7, vars(Reply()) | {"status": "ok", "unknown": 1.0})),
        pickle.dumps((3, 7, vars(Reply()) | {"status": "ok", "pairs": [("ok", np.eye(4).astype(object) * 1j, "")]})),
    ],
)
def test_what_is_no_reply_is_refused(data):
    with pytest.raises(received.BadReply):
        received.parse_reply(data, 3, 7)


@pytest.mark.parametrize("elapsed_s", [0.02, 4.0])
def test_no_stage_is_longer_than_the_call_or_negative(elapsed_s):
    """Seconds by the clock of this process, milliseconds by that of the method's."""
    for share, kept in ((0.0, True), (0.99, True), (1.01, False), (-0.01, False)):
        stages = {"a": 0.0, "b": 1e3 * elapsed_s * share}
        reply = received.bound_time(Reply(pairs=[PairReply()], time_ms=990 * elapsed_s, stages=stages), elapsed_s, 0.0)
        assert (reply.time_ms, reply.stages) == (990 * elapsed_s, stages if kept else {})


def test_a_call_that_failed_as_a_whole_took_no_longer_than_this_process_waited():
    """It has no pairs. A request that is not timed has none either, and no time."""
    untimed = Reply()
    assert received.bound_time(untimed, 0.02, 0.0) is untimed
    failed = received.bound_time(Reply("error", time_ms=5e3, stages={"a": 4e3}), 0.02, 0.0)
    assert (failed.time_ms, failed.stages) == (20.0, {})
    unknown = received.bound_time(Reply(pairs=[PairReply()], stages={"a": 1.0}), 0.02, 0.0)
    assert (unknown.time_ms, unknown.stages) == (20.0, {})


def test_the_reply_to_another_call_or_of_another_process_is_refused():
    assert received.parse_reply(sent(Reply()), 3, 7).status == "ok"
    with pytest.raises(received.BadReply, match="the reply to call 3 instead of 4"):
        received.parse_reply(sent(Reply()), 4, 7)
    with pytest.raises(received.BadReply, match="of another process"):
        received.parse_reply(sent(Reply()), 3, 8)


def test_text_and_values_are_clean():
    pair = PairReply(pose=np.eye(4), message="\x1b[31mred\n")
    reply = Reply(pairs=[pair], message="a\udce4", stages={"a\nb": np.float64(2)}, notes={"n": 10**400}, killed=True)
    read = received.parse_reply(sent(reply), 3, 7)
    assert (read.pairs[0].message, read.message, read.stages) == ("red ", "a\ufffd", {"a b": 2.0})
    assert read.notes == {"n": float("inf")} and not read.killed
    np.testing.assert_array_equal(read.pairs[0].pose, np.eye(4))


def test_a_reply_arrives_as_it_was_sent():
    pose = np.random.default_rng(0).normal(size=(4, 4))
    pairs = [PairReply(pose=pose), PairReply("no_solution", message="flat")]
    reply = Reply("invalid", pairs, "m", 1.5, 2.5, 3.5, 4.5, {"a": 0.1}, {"n": [1, None]}, None, False, True)
    read = received.parse_reply(sent(reply), 3, 7)
    assert vars(read) | {"pairs": 0} == vars(reply) | {"pairs": 0}
    np.testing.assert_array_equal(read.pairs[0].pose, pose)
    assert vars(read.pairs[1]) == vars(pairs[1])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_request_arrives_as_it_was_sent_and_can_be_written_to(kind):
    """Clouds may be views in any order of memory, and empty."""
    base = np.random.default_rng(0).normal(size=(3, 9)).astype(kind)
    sources, targets = [base.T, base.T[::2], base.T[:0]], [base[:, :3], base[::-1, 2:5], np.zeros((1, 3), kind)]
    number, request = unpack_request(pack_request(5, RegisterRequest(sources, targets, 2**62 + 1)))
    assert (number, request.seed) == (5, 2**62 + 1)
    for given, read in zip((*sources, *targets), (*request.sources, *request.targets), strict=True):
        assert read.dtype == kind and read.flags.c_contiguous
        np.testing.assert_array_equal(read, given)
        read += 1
    assert unpack_request(pack_request(0, "another"))[1] == "another"


FORKER = '''
import os
import time
import numpy as np
import psutil
from methods.base import Method, rigid
class Forker(Method):
    """Centroids; a copy of the process returns, too."""
    in_setup: bool = False
    daemon: bool = False
    def setup(self, device, seed, domain):
        if self.in_setup:
            os.fork()
    def register(self, source, target):
        if not self.in_setup and not self.state.get("forked"):
            self.state["forked"] = True
            copy = os.fork()
            if copy and self.daemon:
                os._exit(0)
            while copy and psutil.Process(copy).status() == psutil.STATUS_RUNNING:
                time.sleep(0.01)  # it replies first, then sleeps until there is another request
        return rigid(np.eye(3), target.mean(0) - source.mean(0))
'''


@pytest.mark.parametrize("parameters", ["", "[in_setup=true]", "[daemon=true]"])
def test_a_copy_that_returns_is_a_crash_and_no_reply_goes_to_another_call(tmp_path, parameters):
    (tmp_path / "forker.py").write_text(FORKER)
    process = MethodProcess(MethodSetup(spec(f"forker{parameters}", tmp_path), "blobs"), Limits(FAULT_S, 4))
    clouds = [np.full((5, 3), i, np.float32) for i in range(6)]
    calls = ((i, RegisterRequest([clouds[0]], [clouds[i]], 0)) for i in range(6))
    statuses = []
    try:
        for i, reply in process.replies(calls):
            statuses.append(reply.status)
            assert reply.status in ("ok", "crash")
            if reply.status == "ok":
                assert reply.pairs[0].pose[:3, 3].tolist() == [i] * 3
    finally:
        process.close()
    assert len(statuses) == 6 and "crash" in statuses
