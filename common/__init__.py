"""Modules shared by `datasets`, `methods` and `bench`."""
