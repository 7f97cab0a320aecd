"""Objects that give several problems: the problems of one object are not independent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


def clusters_of(rows: pd.DataFrame) -> NDArray[np.intp]:
    """Return a number (n,) for each row of `aggregate.trials`, equal for rows with the same object; -1 without an object.

    The object of a real pair, `scene/source-target`, is its source scan: pairs of one scan share its points and its noise.
    """
    objects = rows["object"].astype("category").cat
    real = (rows["condition"].astype(str) == "real").to_numpy()
    numbers = [np.unique(names, return_inverse=True)[1] for names in _names(list(objects.categories))]
    whole, scans = (np.append(n, -1)[objects.codes] for n in numbers)
    return np.asarray(np.where(real, scans, whole), dtype=np.intp)


def _names(objects: list[str]) -> tuple[list[str], list[str]]:
    """Return the names of objects, and those of the source scans of pairs with such names."""
    return objects, [name.rpartition("-")[0] if "/" in name and "-" in name else name for name in objects]
