"""Context of a run: what does not change its results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.planning.catalog import Catalog
from bench.planning.tasks import WHOLE, Shard

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class RunContext:
    """Folders, console and workers of a run; none of them changes its results.

    Attributes:
        folder: folder of the results database and the CSVs.
        catalog: methods and data sets, with the user's plug-ins.
        jobs: processes for the accuracy problems.
        console: terminal or log.
        command: the command line, for the record.
        scheduler: address of a Dask scheduler whose workers solve the accuracy problems; empty: processes of this machine.
        shard: part of the run that is done here; only the first does the timing phase.
        fresh: whether to delete what an earlier run wrote to the folder, and to start over.
    """

    folder: Path
    catalog: Catalog
    jobs: int
    console: Console
    command: str
    scheduler: str = ""
    shard: Shard = WHOLE
    fresh: bool = False
