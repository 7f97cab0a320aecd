"""How tests run: with one thread for each process, and collected without the collection of garbage.

The processes of pytest share the processors, so that the threads of a library in one of them wait for those in another; the
collection of garbage would visit half a million objects hundreds of times.
"""

import gc
import os

import pytest

# Read by the first import of each library.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return one process more than processors, since some tests wait."""
    return (yield) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests of this process without collecting garbage; later collections of it pass over them and are rare."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        gc.enable()
