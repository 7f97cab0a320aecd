"""Kinds of data by name."""

import pytest

from common.errors import InputError
from common.kinds import DataKind, data_kind


@pytest.mark.parametrize("kind", list(DataKind))
def test_a_kind_is_found_by_its_name_alone(kind):
    assert data_kind(kind.value) is kind
    for text in (kind.name, kind.value + "s", ""):
        with pytest.raises(InputError, match="unknown kind of data"):
            data_kind(text)
