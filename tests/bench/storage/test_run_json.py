"""`run.json`: its facts and notes, such as those on a drift of the machine's speed."""

from types import SimpleNamespace

import pytest

from bench.storage.database import SCHEMA
from bench.storage.run_json import drift_note, run_json, weights_of


def test_drift_is_noted_and_constant_speed_is_not():
    assert drift_note(None) == drift_note([10.0, 10.2, 10.4]) == []
    assert "changed by 10%" in drift_note([10.0, 10.2, 11.0])[0]


@pytest.mark.parametrize("order", [[11.0, 10.0, 10.1], [10.0, 11.0, 10.0]])
def test_drift_counts_in_either_direction(order):
    assert drift_note(order)


@pytest.mark.parametrize(("factor", "noted"), [(1.0499, False), (1.05, False), (1.0501, True)])
@pytest.mark.parametrize("low", [0.5, 8.0])
def test_a_drift_of_more_than_five_percent_is_noted_with_its_times(factor, noted, low):
    note = drift_note([low, low * factor, low])
    assert bool(note) == noted
    text = f"changed by 5% while timing (the same work took {low:.2f}, {low * factor:.2f}, {low:.2f} ms)"
    assert not noted or text in note[0]


@pytest.mark.parametrize("finished", [None, "2026-01-01"])
@pytest.mark.parametrize("shard", [None, "2/3"])
@pytest.mark.parametrize("sentinel", [None, [1.0, 2.0]])
def test_run_json_has_the_facts_of_the_run_and_its_notes_in_order(finished, shard, sentinel):
    facts = {"command": "x", "notes": ["own"], "schema": 1} | ({"shard": shard} if shard else {})
    values = {"run": facts, "sentinel_ms": sentinel, "finished": finished}
    written = run_json(SimpleNamespace(get=values.get))
    starts = ["own"] + ["this is shard 2/3: bench.py merge"] * bool(shard)
    starts += ["the machine's speed changed by 100%"] * bool(sentinel)
    starts += ["this run was stopped before its end"] * (not finished)
    notes = written.pop("notes")
    assert [note.startswith(start) for note, start in zip(notes, starts, strict=True)] == [True] * len(starts)
    kept = {name: value for name, value in facts.items() if name != "notes"}
    assert written == kept | {"schema": SCHEMA, "finished": finished, "sentinel_ms": sentinel}


def test_digests_of_weights_are_the_notes_that_are_named_so():
    notes = {"sha256": "a", "2 sha256": "b", "weights": "c", "sha256 of what": "d", "mysha256": "e"}
    assert weights_of(notes) == {"sha256": "a", "2 sha256": "b"} and weights_of({}) == {}
