"""Arrays that `torch.save` wrote, as the fragments of Predator. Nothing else is unpickled, so no code of the file runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from common.errors import MalformedFile
from datasets.formats.geometry import Geometry
from datasets.formats.tables import from_array


def read_pth(file: Path) -> Geometry:
    """Read the array or tensor of a .pth file.

    Raises:
        MalformedFile: it holds something else.
    """
    import torch

    rebuild: Any = np.empty(0).__reduce__()[0]  # NumPy's function that unpickles arrays
    kinds: list[Any] = [np.ndarray, np.dtype, rebuild, *(type(np.dtype(code)) for code in ("f4", "f8"))]
    renamed = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]  # NumPy 1 and 2
    with torch.serialization.safe_globals([*kinds, *renamed]):
        content = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(content, torch.Tensor | np.ndarray):
        raise MalformedFile(f"holds {type(content).__name__}, not an array of points (N, 3)")
    return from_array(np.asarray(content))
