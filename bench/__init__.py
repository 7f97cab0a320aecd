"""Plan, run, record and report: problems from `datasets` solved by `methods`. It names no method and no data set.

`bench.load` returns the tables of a run as data frames, see `docs/api.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RunTables:
    """Tables of a run: attributes such as `summary`, `trials`, `poses`, `timing` return the CSV of that name.

    Attributes:
        folder: folder of the run.
        run: content of `run.json`: command, configuration, SHA-256 of the problem sets, environment.
    """

    folder: Path
    run: dict[str, Any]

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return a table by the name of its CSV.

        Raises:
            AttributeError: the run has no such CSV.
        """
        import pandas as pd

        path = self.folder / f"{name}.csv"
        if not path.is_file():
            raise AttributeError(f"{self.folder} has no {name}.csv; it has {', '.join(self.names)}")
        return pd.read_csv(path)

    @property
    def names(self) -> list[str]:
        """Names of the tables."""
        return sorted(path.stem for path in self.folder.glob("*.csv"))


def load(run: str | Path) -> RunTables:
    """Return the tables of a run, given by its folder or its name in `results/`; each CSV is read when it is used.

    Raises:
        InputError: the folder holds no finished run.
    """
    import json

    from common.errors import InputError

    folder = Path(run) if Path(run).is_dir() else Path("results") / run
    try:
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder}: has no run.json; give the name or folder of a finished run") from None
    return RunTables(folder, facts)
