"""Ids of problems in a run of several seeds: all but those of the first seed name it, as `data/clean/64/seed=1/00003`."""

from __future__ import annotations

_MARK = "/seed="


def with_seed(problem: str, seed: int) -> str:
    """Return the id of a problem in a run whose first seed is another one.

    >>> with_seed("data/clean/64/00003", 1)
    'data/clean/64/seed=1/00003'
    """
    group, _, index = problem.rpartition("/")
    return f"{group}{_MARK}{seed}/{index}"


def split_seed(problem: str, first: int) -> tuple[str, int]:
    """Return the id that a problem has in a run of its seed alone, and the seed; `first` is that of ids that name none.

    >>> split_seed("data/clean/64/seed=1/00003", 0), split_seed("data/clean/64/00003", 0)
    (('data/clean/64/00003', 1), ('data/clean/64/00003', 0))
    """
    group, _, index = problem.rpartition("/")
    stem, mark, seed = group.rpartition(_MARK)
    return (f"{stem}/{index}", int(seed)) if mark else (problem, first)
