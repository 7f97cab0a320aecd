"""Work without the collector of cyclic garbage: it works again afterwards, if it did before."""

import gc

import pytest

from common.garbage import uncollected


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_inside_and_as_before_afterwards(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ValueError, match="inside"), uncollected():
            assert not gc.isenabled()
            raise ValueError("inside")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
