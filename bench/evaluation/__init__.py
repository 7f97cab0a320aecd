"""Evaluation of stored poses: metrics, statistics, conventions, tables, comparison of runs."""
