"""Measure time and memory, beside the usual alternative. Each module is a command: `python -m performance.NAME`."""
