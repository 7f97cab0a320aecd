"""Plan, run, record and report: problems from `datasets` solved by `methods`. It names no method and no data set."""
