"""Evaluate stored poses: metrics, statistics, tables."""
