"""Files of a pair of clouds."""

import numpy as np
import pytest

from datasets.formats.ply import write_ply
from tests.bench.pair.synthetic_pair import T, blob


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A cloud in millimetres, and the same moved, in metres, far from the origin as on a map."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("a.xyz", 1000 * blob())
    write_ply(tmp_path / "b.ply", blob() @ T[:3, :3].T + T[:3, 3] + (5e5, 4e6, 100))
    truth = T.copy()
    truth[:3, 3] += (5e5, 4e6, 100)
    np.savetxt("truth.txt", truth)
    return tmp_path
