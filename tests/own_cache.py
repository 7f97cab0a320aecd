"""A cache of the test, below its folder."""

from methods.native import search


def use_cache(monkeypatch, folder):
    """Set the cache folder, after loading the kernel of the search over poses, which would be compiled again into it."""
    search.library()
    monkeypatch.setenv("BENCH_CACHE", str(folder))
