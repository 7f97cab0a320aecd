"""Draw the training curves again from their CSVs: `python -m docs.scripts.make_training_curves`.

Each `docs/training_NAME.csv` of validations that has a picture is drawn to `docs/training_NAME.png`.
"""

from __future__ import annotations

import csv
from pathlib import Path

from docs.scripts.pictures import save
from methods.learned.training_curve import Curve, draw_curve

HERE = Path(__file__).resolve().parents[1]


def read_curve(file: Path) -> Curve:
    """Read the rows of a validation curve."""
    with file.open(newline="") as handle:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(handle)]


if __name__ == "__main__":
    for file in sorted(HERE.glob("training_*.csv")):
        picture = file.with_suffix(".png")
        if picture.is_file() and file.stem != "training_angles":
            save(draw_curve, (read_curve(file), file.stem.removeprefix("training_")), picture)
