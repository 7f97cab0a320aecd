"""Progress of a run: a bar in a terminal, a line every few seconds in a log."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_INTERVAL_S = 10.0
"""Minimum time between two lines of a log."""


class ProgressBar:
    """Progress bar that counts to `total`, with a title, the current work and the time left."""

    def __init__(self, console: Console, title: str, total: int) -> None:
        self.console, self.title, self.total, self.count = console, title, total, 0
        self.start = self.last = time.monotonic()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None

    def __enter__(self) -> ProgressBar:
        if self.bar:
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()
        if self.total and kind is None:
            spent = time.monotonic() - self.start
            self.console.print(f"{self.title}: {self.count} of {self.total} in {spent:.0f} s", highlight=False)

    def advance(self, n: int, what: str) -> None:
        """Advance by `n`; `what` names the current work."""
        self.count += n
        if self.bar:
            self.bar.update(self.task, advance=n, description=f"{self.title}: {what}")
        elif time.monotonic() - self.last > LINE_INTERVAL_S and 0 < self.count < self.total:
            self.last = time.monotonic()
            left = (self.last - self.start) / self.count * (self.total - self.count)
            line = f"{self.title}: {self.count} of {self.total}, about {left:.0f} s left ({what})"
            self.console.print(line, highlight=False, soft_wrap=True)
