"""A part of a finished run, by methods and conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from bench.evaluation.loader import RunData
from common.errors import unknown


def subset(loaded: RunData, methods: Sequence[str], conditions: Sequence[str]) -> RunData:
    """Return the outcomes of the given methods and conditions; an empty list keeps all.

    Times taken alone are kept for all conditions.

    Raises:
        InputError: the run has no such method or condition.
    """
    outcomes, stages, run = loaded.outcomes, loaded.stages, loaded.run
    for word, wanted, column in (("method", methods, "method"), ("condition", conditions, "condition")):
        known = sorted(map(str, outcomes[column].unique()))
        for name in wanted:
            if name not in known:
                raise unknown(word, name, known)
    if methods:
        outcomes, stages = outcomes[outcomes["method"].isin(methods)], stages[stages["method"].isin(methods)]
        chosen = {
            part: {m: v for m, v in run.get(part, {}).items() if m in methods} for part in ("methods", "unavailable")
        }
        run = run | chosen
    if conditions:
        outcomes = outcomes[outcomes["condition"].isin(conditions) | (outcomes["phase"] != "accuracy")]
        sets = {name: d for name, d in run.get("problem_sets", {}).items() if name.split("/")[-2] in conditions}
        run = run | {"problem_sets": sets}
    return dataclasses.replace(loaded, outcomes=outcomes.reset_index(drop=True), stages=stages, run=run)
