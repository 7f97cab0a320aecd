"""Texts that `bench.py new` fills in."""
