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
    import pandas as pd

    objects = rows["object"].astype("category").cat
    codes = np.asarray(objects.codes, dtype=np.intp)
    real = (rows["condition"] == "real").to_numpy()
    if not real.any():
        return codes
    scans, _ = pd.factorize(np.array([_scan_of(name) for name in objects.categories], dtype=object))
    return np.where(real, np.append(scans + len(scans), -1)[codes], codes)


def _scan_of(name: str) -> str:
    """Return the name of the source scan of a real pair; exported objects have other names, which do not change."""
    return name.rpartition("-")[0] if "/" in name and "-" in name else name
