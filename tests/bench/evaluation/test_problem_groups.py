"""Which stored problems belong to which group of a run."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench.evaluation.problem_groups import problem_counts, problem_set_of, rows_of_groups
from datasets.problems import problem_set_sha256

GRID = {"datasets": ["a"], "conditions": ["clean"], "points": [64]}
EXTRA = {"datasets": ["a", "b"], "conditions": ["clean", "noisy"], "points": [64, 32], "problems": 3}


@pytest.mark.parametrize(
    ("more", "group", "counts"),
    [
        ([], "a/clean/64", [5]),
        ([], "a/clean/32", [5]),
        ([EXTRA], "a/clean/64", [3, 5]),
        ([EXTRA], "b/noisy/32", [3, 5]),
        ([EXTRA], "a/clean/16", [3, 5]),
        ([EXTRA | {"problems": 9}], "b/clean/64", [5]),
        ([{k: v for k, v in EXTRA.items() if k != "problems"}], "b/clean/64", [5]),
        ([EXTRA, EXTRA | {"problems": 2, "points": [32]}], "b/clean/64", [3, 2, 5]),
        ([EXTRA, EXTRA | {"problems": 2, "points": [32]}], "b/clean/32", [2, 3, 5]),
        ([EXTRA | {"datasets": ["c"]}], "a/clean/64", [5, 3]),
    ],
)
def test_a_group_has_the_number_of_problems_of_its_last_grid_or_of_another_one(more, group, counts):
    assert problem_counts(GRID | {"problems": 5, "more": more}, group) == counts
    assert more or problem_counts(GRID | {"problems": 5}, group) == counts


def loaded(ids, sets, angles=(0.0, 180.0), **config):
    """A run with these ids of problems, in a shuffled order; `sets` has the indices of ids whose digests a group claims."""
    digests = {name: bytes([k]) for k, name in enumerate(ids)}
    order = np.random.default_rng(0).permutation(len(ids))
    problems = pd.DataFrame({"problem": [ids[k] for k in order], "digest": [digests[ids[k]] for k in order]})
    claimed = {group: problem_set_sha256(digests[ids[k]] for k in rows) for group, rows in sets.items()}
    run = {"config": GRID | {"problems": 3, "seed": 4, "angles": angles, **config}, "problem_sets": claimed}
    return SimpleNamespace(problems=problems, run=run)


def names(run):
    return {group: run.problems["problem"].iloc[rows].tolist() for group, rows in rows_of_groups(run).items()}


def test_a_group_has_its_first_problems_of_every_seed_in_the_order_of_its_digest():
    ids = [f"a/clean/64/{k:05d}" for k in range(12)] + [
        f"a/clean/64/seed={s}/{k:05d}" for s in (5, 6) for k in range(4)
    ]
    ids += ["a/noisy/64/00000", "b/clean/64/00000"]
    order = [*range(3), *range(12, 15), *range(16, 19)]
    run = loaded(ids, {"a/clean/64": order, "a/noisy/64": [20], "c/clean/64": []})
    found = names(run)
    assert found == {"a/clean/64": [ids[k] for k in order], "a/noisy/64": ["a/noisy/64/00000"]}
    assert problem_set_of(run, rows_of_groups(run)["a/clean/64"]) == run.run["problem_sets"]["a/clean/64"]


def test_of_several_numbers_of_problems_the_one_of_the_digest_counts():
    ids = [f"b/clean/64/{k:05d}" for k in range(3)]
    more = [EXTRA | {"problems": 2}]
    for claimed, rows in ((ids[:2], [0, 1]), (ids, [0, 1, 2])):
        assert names(loaded(ids, {"b/clean/64": rows}, more=more)) == {"b/clean/64": claimed}
    damaged = loaded(ids, {"b/clean/64": [1]}, more=more)
    assert names(damaged) == {"b/clean/64": ids[:2]}, "without such a digest, the most likely number"


def test_angles_are_in_the_ids_except_of_real_pairs():
    ids = ["a/clean/64/10-60/00000", "a/clean/64/00000", "p/real/64/00000", "p/real/64/10-60/00000"]
    sets = {"a/clean/64": [0], "p/real/64": [2]}
    assert names(loaded(ids, sets, (10.0, 30.0, 60.0))) == {"a/clean/64": [ids[0]], "p/real/64": [ids[2]]}
    assert names(loaded(ids, sets, (0.0, 90.0, 180.0))) == {"a/clean/64": [ids[1]], "p/real/64": [ids[2]]}
