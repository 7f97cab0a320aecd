"""Arrays of torch are read, code in their files is not run."""

import numpy as np
import pytest
import torch

from common.errors import InputError
from common.keys import rng
from datasets import formats

POINTS = rng("pth").normal(size=(40, 3)).astype(np.float32)


@pytest.mark.parametrize("content", [POINTS, torch.from_numpy(POINTS), POINTS.astype(np.float64)])
def test_an_array_is_read_as_it_was_written(tmp_path, content):
    torch.save(content, tmp_path / "a.pth")
    np.testing.assert_array_equal(formats.read(tmp_path / "a.pth").points, POINTS)


class Harmful:
    """Object that creates a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def test_code_in_a_file_does_not_run(tmp_path):
    torch.save({"points": Harmful(tmp_path / "ran")}, tmp_path / "bad.pth")
    with pytest.raises(InputError, match=r"bad\.pth: "):
        formats.read(tmp_path / "bad.pth")
    assert not (tmp_path / "ran").exists()
    torch.save({"points": torch.zeros(3, 3)}, tmp_path / "dict.pth")
    with pytest.raises(InputError, match="holds dict, not an array of points"):
        formats.read(tmp_path / "dict.pth")
