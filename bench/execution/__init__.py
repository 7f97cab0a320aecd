"""Execute a run: worker pool, timing phase, progress."""
