"""What `bench.py pair` does, from the two files to the folder of what was found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.isolation.protocol import Limits
from bench.pair import figure, page
from bench.pair.clouds import Scans, guessed_unit, open_scans
from bench.pair.files import write_files
from bench.pair.register import Answer, chosen, defaults, register_all
from bench.pair.result import Result, judge, read_truth
from bench.report.style import number
from common.errors import InputError
from methods.core.registry import MethodRegistry

if TYPE_CHECKING:
    from rich.console import Console


MATRIX = 12
"""Poses whose differences fit into a terminal, each with each; the report has them all."""


@dataclass(frozen=True)
class PairRequest:
    """What is asked; None stands for the value in `defaults.toml`, or for what is found from the data.

    Attributes:
        source, target: the two files.
        methods: names as on the command line.
        truth: a file with the true pose.
        points: the most points of each cloud that methods are given.
        scale: what to multiply the source's coordinates by.
        out: the folder to write to.
    """

    source: Path
    target: Path
    methods: list[str] | None = None
    truth: Path | None = None
    points: int | None = None
    scale: float | None = None
    out: Path | None = None
    timeout: float | None = None
    memory_limit_gb: float | None = None
    device: str = "cpu"
    threads: int = 1
    registry: MethodRegistry = field(default_factory=MethodRegistry)

    @property
    def folder(self) -> Path:
        """Where to write."""
        name = f"{self.source.stem}-{self.target.stem}"
        return self.out or Path("pairs") / re.sub(r"[^\w.-]+", "-", name)

    def limits(self) -> Limits:
        """What one call may take.

        Raises:
            InputError: not above zero.
        """
        said = defaults()
        timeout = said["timeout"] if self.timeout is None else self.timeout
        memory = said["memory_limit_gb"] if self.memory_limit_gb is None else self.memory_limit_gb
        for flag, value in (
            ("--timeout", timeout),
            ("--memory-limit", memory),
            ("--scale", 1 if self.scale is None else self.scale),
        ):
            if not value > 0:
                raise InputError(f"{flag}: must be above 0")
        return Limits(timeout, memory)


def run(request: PairRequest, console: Console) -> Result:
    """Register the pair by every method, print what was found, and write it.

    Raises:
        InputError: a file does not read, or a name, limit or truth is no good.
    """
    limits, methods = request.limits(), chosen(request.methods, request.registry)
    truth = read_truth(request.truth) if request.truth else None
    points = defaults()["points"] if request.points is None else request.points
    if points < 10:
        raise InputError("--points: must be at least 10")
    scans = open_scans((request.source, request.target), points, request.scale)
    for line in format_fields(scans):
        console.print(line, highlight=False, soft_wrap=True)
    answers: list[Answer] = []
    for answer in register_all(scans, methods, limits, request.device, request.threads):
        answers.append(answer)
        line = f"  {len(answers)} of {len(methods)}  {answer.method}: {answer.status}"
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    result = judge(scans, answers, truth)
    show(result, console)
    inputs = [f for f in (request.source, request.target, request.truth) if f]
    write(result, request.folder, inputs, console)
    return result


def format_fields(scans: Scans) -> list[str]:
    """What was found of the clouds, in lines."""
    source, target = len(scans.source.whole), len(scans.target.whole)
    return [
        f"{scans.source.file.name}: {source} points; {scans.target.file.name}: {target} points",
        f"about {number(scans.size)} across ({guessed_unit(scans.size)}); a point's neighbour is {number(scans.spacing)} away; "
        f"within {number(scans.near)} counts as overlapping",
        *scans.notes,
    ]


def show(result: Result, console: Console) -> None:
    """The poses, the best first, who has none, the matrix of agreement if it fits, and the verdict, on the terminal."""
    from rich.table import Table

    head, *rows = page.table(result)
    told = list(zip(result.answers, rows, strict=True))
    posed = sorted((pair for pair in told if pair[0].pose is not None), key=lambda pair: _rank(result, pair[0]))
    full = [i for i in range(len(head)) if head[i] not in ("status", "message") and any(row[i] for _, row in posed)]
    table = Table(box=None)
    for i in full:
        numeric = head[i] not in ("method", "agrees")
        table.add_column(head[i], justify="right" if numeric else "left", overflow="fold", no_wrap=i == 0)
    for _, row in posed:
        table.add_row(*(row[i] for i in full))
    console.print(table)
    without = [answer for answer in result.answers if answer.pose is None]
    for answer in (a for a in without if a.status != "skipped"):
        line = f"no pose: {answer.method}, {answer.status}: {answer.message}"
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if skipped := [a.method for a in without if a.status == "skipped"]:
        line = f"not available here: {', '.join(skipped)}; `bench.py list` and the report say why"
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if 1 < len(result.posed) <= MATRIX:
        console.print("agreement: degrees between every two poses", highlight=False)
        matrix = Table("", *(str(i + 1) for i in range(len(result.posed))), box=None)
        for i, answer in enumerate(result.posed):
            matrix.add_row(f"{i + 1} {answer.method}", *(number(a, 1) for a in result.agreement.angle_deg[i]))
        console.print(matrix)
    console.print(result.verdict(), highlight=False, soft_wrap=True)


def _rank(result: Result, answer: Answer) -> tuple[bool, bool, float]:
    """Sort key of an answer with a pose: the best, those that agree with it, the others; by residual."""
    row = result.row(answer)
    return answer is not result.best, not row["consensus"], row["residual"]


def write(result: Result, folder: Path, inputs: Sequence[Path], console: Console) -> None:
    """Every file of the pair, beside the inputs; says where they are.

    Raises:
        InputError: the folder can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_files(result, folder, inputs)
        figure.draw(result, folder / "picture.png")
        (folder / "report.html").write_text(page.render(result), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written ({error}); give another folder") from error
    for what, name in (("poses", "poses.json"), ("picture", "picture.png"), ("report", "report.html")):
        console.print(f"{what:8}{folder / name}", highlight=False, soft_wrap=True)
    if result.scans.factor != 1:
        told = f"poses are of the source with its coordinates times {result.scans.factor:g}, not of the file as it is"
        console.print(told, highlight=False, soft_wrap=True)
