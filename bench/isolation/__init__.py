"""Run a method in its own process."""
