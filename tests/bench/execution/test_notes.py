"""Notes on what differs from the request, and on how times were taken."""

from types import SimpleNamespace

import pytest

from bench.execution import run
from bench.execution.run import _timing_notes, collect_notes


def group(dataset, condition, points, requested, skip="", remarks=(), trusted=""):
    name = f"{dataset}/{condition}/{points}"
    source = type("Source", (str,), {"text": dataset, "trusted_file": trusted})(dataset)
    facts = {"dataset": source, "condition": condition, "points": points, "requested": requested}
    return SimpleNamespace(name=name, skip=skip, remarks=remarks, **facts)


def method(text):
    return type("Named", (str,), {"text": text})(text)


def test_every_difference_from_the_request_is_noted_once():
    limits = {"fast": 40, "slow": 5, "slower": 2}
    config = SimpleNamespace(problems=40, every_method=[method(m) for m in limits], limit=lambda m: limits[m.text])
    groups = [
        group("a", "clean", 64, 64, remarks=("one file is left out",)),
        group("a", "noisy", 32, 64, remarks=("one file is left out", "another"), trusted="mine.py"),
        group("a", "crop", 64, 64, trusted="mine.py"),
        group("b", "real", 16, 64, skip="no files"),
    ]
    context = SimpleNamespace(catalog=SimpleNamespace(faults=["a broken plug-in"]))
    why = "its objects have a fixed number of points, and the condition divides them or needs more than N of them"
    assert collect_notes(config, groups, context) == [
        "a broken plug-in",
        "one file is left out",
        "another",
        "b/real/16 is skipped: no files",
        "a: code of mine.py generates its problems in the process that scores: trust it as the benchmark itself",
        f"a/noisy has N = 32 instead of 64: {why}",
        "slow methods get fewer than 40 problems of each condition: slow 5, slower 2",
    ]
    plain = SimpleNamespace(problems=40, every_method=[method("fast")], limit=lambda m: 40)
    assert collect_notes(plain, groups[2:3], SimpleNamespace(catalog=SimpleNamespace(faults=[])))[1:] == []


@pytest.mark.parametrize(
    ("jobs", "scheduler", "rounds", "expected"),
    [
        (1, "", 5, []),
        (2, "", 5, ["while several processes worked; the timing table has those taken alone"]),
        (2, "", 0, ["while several processes worked; nothing was timed alone"]),
        (1, "tcp://x", 5, ["while several processes worked; the timing table has those taken alone"]),
    ],
)
def test_times_beside_others_and_of_batches_are_noted(monkeypatch, jobs, scheduler, rounds, expected):
    batches = {"one": 1, "many": 32, "two": 2}
    config = SimpleNamespace(timing_rounds=rounds, batch=32, every_method=[method(m) for m in batches])
    monkeypatch.setattr(run, "repeats_and_batch", lambda _, m: (9, batches[m.text]))
    notes = _timing_notes(config, SimpleNamespace(jobs=jobs, scheduler=scheduler))
    assert [note.removeprefix("times beside accuracy were taken ") for note in notes[:-1]] == expected
    assert notes[-1] == "times beside accuracy are a batch's over its pairs (--batch 32; column batch): many, two"
    monkeypatch.setattr(run, "repeats_and_batch", lambda *_: (9, 1))
    assert len(_timing_notes(config, SimpleNamespace(jobs=jobs, scheduler=scheduler))) == len(expected)
