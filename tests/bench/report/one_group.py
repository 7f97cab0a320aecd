"""Tables of a run with one problem group, from errors by method."""

import numpy as np
import pandas as pd

from bench.evaluation import aggregate, metrics
from bench.evaluation.conventions import CONVENTIONS

CRITERION = CONVENTIONS["deepgmr"]


def one_group(methods, ms, timed=None, criterion=CRITERION):
    """Return the frames summary, trials, cdf and timing of a group.

    Args:
        methods: kind and errors by method, an item a problem; infinite for a failure.
        ms: time of each method during the run.
        timed: ms by method timed alone.
        criterion: convention with the error `rmse`.
    """
    rows = [
        {
            "method": m,
            "kind": kind,
            "problem": f"d/noisy/64/{i:05d}",
            "object": f"object_{i}",
            "rmse": e,
            "time_ms": ms.get(m),
        }
        for m, (kind, errors) in methods.items()
        for i, e in enumerate(errors)
    ]
    others = dict.fromkeys([*metrics.COLUMNS[1:], "peak_mb"], 1.0)
    trials = pd.DataFrame(rows).assign(**others, dataset="d", condition="noisy", points=64, repeat=0, seed=0)
    trials = trials.assign(category="c", symmetry=None, batch=1, gpu_memory_mb=np.nan, machine="", device="cpu")
    trials["status"] = np.where(np.isinf(trials["rmse"]), "timeout", "ok")
    for name in ("method", "problem", "dataset", "condition", "kind", "status"):
        trials[name] = trials[name].astype("category")
    trials["success"] = criterion.success(trials)
    trials = trials.assign(**aggregate.FROM_CLOUDS)
    timing = pd.DataFrame((timed or {}).items(), columns=["method", "time_ms_median"])
    timing = timing.assign(points=64, angle_low=0, angle_high=180, phase="timing", device="cpu")
    summary = aggregate.summary(trials, criterion)
    return {"summary": summary, "trials": trials, "cdf": aggregate.cdf(trials, criterion), "timing": timing}
