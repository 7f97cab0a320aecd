"""Time and memory, ours beside what one would otherwise run. Each module is a command: `python -m performance.NAME`."""
