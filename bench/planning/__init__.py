"""Plan a run: configuration, problem groups, tasks."""
