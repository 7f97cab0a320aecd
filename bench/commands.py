"""The commands beside the run and its reports: what each takes, and what it calls. Imports wait until they are needed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PLUGINS = "folder with methods and data sets of your own"


def add_commands(commands: Any) -> None:
    """Add them to the subparsers of the command line."""
    _pair_flags(commands.add_parser("pair", help="register two files of your own by every method; no truth needed"))


def absolute(text: str) -> Path:
    """A path from a flag, absolute, since methods run in processes with another current folder."""
    return Path(text).resolve()


def terminal() -> Console:
    """The terminal; a log gets lines that hold the summary's 100 columns."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, markup=False)  # names hold brackets


def _pair_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("source", type=Path, metavar="A", help="file to be moved: ply pcd obj off stl xyz txt npy npz las")
    add("target", type=Path, metavar="B", help="file it is moved onto")
    add("--methods", nargs="+", metavar="M", help="names, as for a run; default: all but controls and the slowest")
    add("--truth", type=Path, metavar="FILE", help="4 x 4 matrix that maps A onto B, text or JSON: gives errors")
    add("--points", type=int, metavar="N", help="points of each cloud that methods are given; default 4096")
    add("--scale", type=float, metavar="F", help="multiply A's coordinates by this; default: found from the sizes")
    add("--out", type=Path, metavar="FOLDER", help="folder to write to; default pairs/A-B")
    add("--timeout", type=float, metavar="S", help="seconds a method may take")
    add("--memory-limit", type=float, metavar="GB", help="memory a method may use")
    add("--device", default="cpu", help="of learned methods: cpu or cuda")
    add("--threads", type=int, default=1, help="threads a method may use")
    add("--plugins", type=absolute, help=PLUGINS)
    command.set_defaults(do=_pair)


def _pair(flags: argparse.Namespace) -> None:
    from bench.pair.command import Request, run

    names = "source target methods truth points scale out timeout device threads plugins"
    given = {name: getattr(flags, name) for name in names.split()}
    run(Request(**given, memory_limit_gb=flags.memory_limit), terminal())
