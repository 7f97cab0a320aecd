"""How tests are collected: without the collection of garbage, which would visit half a million objects hundreds of times."""

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests of this process without collecting garbage, then let later collections of it pass over them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
