"""Where a run reads and writes, and how much of the machine it may use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console


@dataclass(frozen=True)
class RunContext:
    """What does not change the results of a run.

    Attributes:
        folder: where the record and the CSVs go.
        data: the folder that holds one folder a data set.
        jobs: processes for the accuracy problems.
        command: what the user typed.
        fresh: whether to delete what an earlier run wrote to the folder, and to start over.
        scheduler: address of a Dask scheduler whose workers take the accuracy problems; empty: processes of this machine.
    """

    folder: Path
    data: str
    jobs: int
    plugins: Path | None
    console: Console
    command: str
    scheduler: str = ""
    fresh: bool = False
