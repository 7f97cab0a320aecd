"""`bench.py pair`: register two files and write the results to a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from bench.isolation.protocol import Limits
from bench.pair import figure, page
from bench.pair.clouds import Scans, guessed_unit, open_scans
from bench.pair.files import write_files
from bench.pair.register import Registration, defaults, register_all, select_methods
from bench.pair.result import PairResult, evaluate
from bench.pair.truth import inverse_remark, read_truth
from bench.report.style import number
from common.errors import InputError, storage_error
from common.files import make_folder, write_atomically
from common.kinds import DataKind
from methods.core.registry import MethodRegistry

if TYPE_CHECKING:
    from rich.console import Console


WIDEST = 10_000
"""Width at which the width that a table needs is measured."""
MAX_MATRIX = 12
"""Most poses whose matrix of differences is printed; the report contains all."""


@dataclass(frozen=True)
class PairRequest:
    """Arguments of a pair; None selects the value in `defaults.toml`, or for a value derived from the data.

    Attributes:
        source, target: the two files.
        methods: names as on the command line.
        truth: file with the true pose.
        points: most points of each cloud for the methods.
        scale: factor of the source's coordinates.
        kind: kind of the data, None to guess it.
        out: folder to write to.
        domain: data that learned methods are set up for.
    """

    source: Path
    target: Path
    methods: list[str] | None = None
    truth: Path | None = None
    points: int | None = None
    scale: float | None = None
    kind: DataKind | None = None
    out: Path | None = None
    timeout: float | None = None
    memory_limit_gb: float | None = None
    device: str = "cpu"
    threads: int = 1
    domain: str = ""
    registry: MethodRegistry = field(default_factory=MethodRegistry)

    @property
    def folder(self) -> Path:
        """Folder to write to."""
        name = f"{self.source.stem}-{self.target.stem}"
        return self.out or Path("pairs") / re.sub(r"[^\w.-]+", "-", name)

    def limits(self) -> Limits:
        """Return the limits of one call.

        Raises:
            InputError: a value is not above zero.
        """
        default = defaults()
        timeout = default["timeout"] if self.timeout is None else self.timeout
        memory = default["memory_limit_gb"] if self.memory_limit_gb is None else self.memory_limit_gb
        for flag, value in (
            ("--timeout", timeout),
            ("--memory-limit", memory),
            ("--scale", 1 if self.scale is None else self.scale),
        ):
            if not value > 0:
                raise InputError(f"{flag}: must be above 0")
        return Limits(timeout, memory)


def run(request: PairRequest, console: Console) -> PairResult:
    """Register the pair by every method, print and write the results.

    Raises:
        InputError: a file is unreadable, or a name, limit or true pose is invalid.
    """
    limits, methods = request.limits(), select_methods(request.methods, request.registry)
    truth = read_truth(request.truth) if request.truth else None
    points = defaults()["points"] if request.points is None else request.points
    if points < 10:
        raise InputError("--points: must be at least 10")
    scans = open_scans((request.source, request.target), points, request.scale, request.kind)
    if truth is not None:
        scans.notes.extend([*truth.remarks, *inverse_remark(scans, truth.matrix)])
    for line in describe_scans(scans):
        console.print(line, highlight=False, soft_wrap=True)
    registrations: list[Registration] = []
    for registration in register_all(scans, methods, limits, request.domain, request.device, request.threads):
        registrations.append(registration)
        line = f"  {len(registrations)} of {len(methods)}  {registration.method}: {registration.status}"
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    result = evaluate(scans, registrations, truth.matrix if truth else None)
    show(result, console)
    inputs = [f for f in (request.source, request.target, request.truth) if f]
    write(result, request.folder, inputs, console)
    return result


def describe_scans(scans: Scans) -> list[str]:
    """Describe the clouds, one line per item."""
    source, target = len(scans.source.whole), len(scans.target.whole)
    return [
        f"{scans.source.file.name}: {source} points; {scans.target.file.name}: {target} points",
        f"size about {number(scans.size)} ({guessed_unit(scans.size)}); distance between neighbours {number(scans.spacing)}; "
        f"points within {number(scans.near)} count as overlapping",
        *scans.notes,
    ]


def show(result: PairResult, console: Console) -> None:
    """Print the poses, the best first, the failures, the matrix of agreement if it fits, the pose and the verdict."""
    from rich.table import Table

    head, *rows = page.table_rows(result)
    pairs = zip(result.ranked(), rows, strict=True)
    posed = [pair for pair in pairs if pair[0].pose is not None]
    columns = [i for i in range(len(head)) if head[i] not in ("status", "message") and any(row[i] for _, row in posed)]
    needs = {i: max(map(len, [*head[i].split(), *(row[i] for _, row in posed)])) for i in columns}
    columns, needed = _fitting(needs, console.width)
    table = Table(box=None, width=needed if needed > console.width else None)
    for i in columns:
        numeric = head[i] not in ("method", "agrees")
        table.add_column(head[i], justify="right" if numeric else "left", overflow="fold", min_width=needs[i])
    for _, row in posed:
        table.add_row(*(row[i] for i in columns))
    console.print(table, crop=False)
    without = [registration for registration in result.registrations if registration.pose is None]
    for registration in (a for a in without if a.status != "skipped"):
        line = f"no pose: {registration.method}, {registration.status}: {registration.message}"
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if skipped := [a.method for a in without if a.status == "skipped"]:
        line = f"not available: {', '.join(skipped)}; `bench.py list` and the report give the reasons"
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if 1 < len(result.posed) <= MAX_MATRIX:
        matrix = Table("", *(str(i + 1) for i in range(len(result.posed))), box=None)
        for i, registration in enumerate(result.posed):
            matrix.add_row(f"{i + 1} {registration.method}", *(number(a, 1) for a in result.agreement.angle_deg[i]))
        if console.measure(matrix, options=console.options.update(width=WIDEST)).maximum <= console.width:
            console.print("agreement: angle in degrees between every two poses", highlight=False)
            console.print(matrix)
    for line in (page.pose_title(result), *page.pose_lines(result), result.verdict()):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _fitting(needs: dict[int, int], width: int) -> tuple[list[int], int]:
    """Return the first columns that fit in a width, each with a space on both sides, or the first three; and what they need."""
    ends = [0, *accumulate(need + 2 for need in needs.values())]
    count = max(sum(end <= width for end in ends[1:]), min(3, len(needs)))
    return list(needs)[:count], ends[count]


def write(result: PairResult, folder: Path, inputs: Sequence[Path], console: Console) -> None:
    """Write all files of the pair and print their paths.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        make_folder(folder)
        write_files(result, folder, inputs)
        figure.draw(result, folder / "picture.png")
        write_atomically(folder / "report.html", page.render(result))
    except OSError as error:
        if reason := storage_error(error, folder):
            raise InputError(f"--out {reason}") from error
        raise InputError(f"--out {folder}: cannot be written ({error}); give another folder") from error
    for label, name in (("poses", "poses.json"), ("picture", "picture.png"), ("report", "report.html")):
        console.print(f"{label:8}{folder / name}", highlight=False, soft_wrap=True)
    if result.scans.factor != 1:
        note = f"poses apply to the source with its coordinates multiplied by {result.scans.factor:g}"
        console.print(note, highlight=False, soft_wrap=True)
