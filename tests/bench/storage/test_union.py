"""Union of databases: which rows are copied, under which ids, and which contradict each other."""

import itertools

import numpy as np
import pytest

from bench.storage import union as module
from bench.storage.database import OUTCOME, PROBLEM, ResultsDatabase
from bench.storage.outcome import Outcome, Phase, Status
from bench.storage.seeds import split_seed, with_seed
from bench.storage.union import Union
from common.errors import InputError

GROUP = ("d", "clean", 8)


def problem(index, digest=b"x", seed=None):
    key = f"d/clean/8/{index:05d}"
    key = key if seed is None else with_seed(key, seed)
    return tuple({"problem": key, "digest": digest}.get(name, name) for name in PROBLEM)


def outcome(index=0, status="ok", ms=1.0, shift=0.0, method="m", phase=Phase.ACCURACY, repeat=0, message="", seed=None):
    pose = np.eye(4) + shift if status == "ok" else None
    return Outcome(method, problem(index, seed=seed)[0], Status(status), phase, repeat, 0, pose, ms, message=message)


@pytest.fixture
def databases(tmp_path):
    """Return a function that makes a database with rows; all are closed at the end."""
    made = []

    def make(problems=(), outcomes=()):
        made.append(ResultsDatabase(tmp_path / f"{len(made)}" / "record.sqlite"))
        made[-1].add_rows(ResultsDatabase.rows(outcomes, "local", GROUP), problems)
        return made[-1]

    yield make
    for database in made:
        database.close()


def rows(database, table, columns):
    return set(database.db.execute(f"SELECT {', '.join(columns)} FROM {table}"))


@pytest.mark.parametrize("chunk", [1, 2, 1000])
@pytest.mark.parametrize("first", [0, 3, 9])
def test_rows_of_runs_of_several_seeds_have_ids_that_name_all_but_the_first(databases, monkeypatch, chunk, first):
    """A run may have several seeds itself; those ids that name the first seed of the union lose it."""
    monkeypatch.setattr(module, "_CHUNK", chunk)
    own = databases([problem(i) for i in range(3)], [outcome(i) for i in range(3)])
    several = [*map(problem, range(2)), problem(0, seed=5), problem(1, seed=9)]
    other = databases(several, [outcome(1), outcome(1, seed=9), outcome(0, seed=5)])
    target = databases()
    union = Union(target, first)
    union.add("own", own, 0)
    union.add("other", other, 3)

    def named(row, seed):
        alone, of = split_seed(row[0], seed)
        return (alone if of == first else with_seed(alone, of), *row[1:])

    for table, columns in (("problems", PROBLEM), ("outcomes", OUTCOME)):
        at = ["problem", *(name for name in columns if name != "problem")]
        expected = {named(row, seed) for source, seed in ((own, 0), (other, 3)) for row in rows(source, table, at)}
        assert rows(target, table, at) == expected
    assert len(expected) == 6


@pytest.mark.parametrize(("stored", "added"), [*itertools.product(["skipped", "ok", "error"], repeat=2)])
def test_a_skipped_outcome_gives_way_and_others_must_agree(databases, stored, added):
    target, union = databases(), None
    sources = (
        databases([problem(0)], [outcome(0, stored, message="a")]),
        databases([problem(0)], [outcome(0, added, message="b" if "skipped" in (stored, added) else "a")]),
    )
    union = Union(target, 0)
    union.add("first", sources[0], 0)
    if "skipped" not in (stored, added) and stored != added:
        with pytest.raises(InputError, match=rf"first and second: m on .* ended with {stored} and with {added}; leave"):
            union.add("second", sources[1], 0)
        added = stored
    else:
        union.add("second", sources[1], 0)
    kept = stored if added == "skipped" else added
    message = "a" if added == "skipped" or stored != "skipped" else "b"
    assert rows(target, "outcomes", ["status", "message"]) == {(kept, message)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "timeout"}, "ended with ok and with timeout"),
        ({"shift": 1.0}, "has two poses"),
        ({"ms": 2.0}, "was run twice: the same pose, other times"),
        ({"message": "x"}, "has two outcomes"),
    ],
)
def test_a_conflict_names_the_first_run_with_the_row_and_what_differs(databases, change, says):
    """The first of the three runs has the outcome skipped, and does not count."""
    key = {"method": "m", "phase": Phase.TIMING, "repeat": 2}
    problems, target = [problem(0), problem(1)], databases()
    union = Union(target, 0)
    union.add("a", databases(problems, [outcome(0, "skipped", **key)]), 0)
    union.add("b", databases(problems, [outcome(1, **key)]), 0)
    union.add("c", databases(problems, [outcome(0, **key)]), 0)
    before = rows(target, "outcomes", OUTCOME)
    with pytest.raises(InputError) as caught:
        union.add("d", databases([problem(2)], [outcome(1, **key), outcome(0, **(key | change))]), 0)
    assert str(caught.value) == f"c and d: m on d/clean/8/00000 (timing, repeat 2) {says}; leave one of them out"
    assert rows(target, "outcomes", OUTCOME) == before and len(rows(target, "problems", ["problem"])) == 2


@pytest.mark.parametrize("other", [{"phase": Phase.TIMING}, {"method": "n"}, {"repeat": 1}, {"index": 1}])
def test_calls_that_differ_in_any_part_of_the_key_are_two_outcomes(databases, other):
    target = databases()
    union = Union(target, 0)
    for name, given in (("a", {}), ("b", other)):
        union.add(name, databases([problem(0), problem(1)], [outcome(**given)]), 0)
    assert len(rows(target, "outcomes", OUTCOME)) == 2


def test_problems_of_one_id_have_one_digest(databases):
    target = databases()
    union = Union(target, 0)
    union.add("a", databases([problem(1)]), 0)
    union.add("b", databases([problem(0), problem(1)]), 0)
    with pytest.raises(InputError) as caught:
        union.add("c", databases([problem(1), problem(0, b"y"), problem(2)]), 0)
    said = "b and c: problem d/clean/8/00000 has different clouds or another true pose; leave one of them out"
    assert str(caught.value) == said
    assert rows(target, "problems", ["problem", "digest"]) == {(problem(i)[0], b"x") for i in range(2)}


@pytest.mark.parametrize("seed", [0, 1, 12, -3])
@pytest.mark.parametrize("problem_id", ["data/clean/64/00003", "a[x=1]/noisy/64/0-60/00012", "d/c/8/100000"])
def test_an_id_with_a_seed_is_split_into_what_it_was_made_of(problem_id, seed):
    assert split_seed(with_seed(problem_id, seed), 7) == (problem_id, seed)
    assert split_seed(problem_id, 7) == (problem_id, 7)
