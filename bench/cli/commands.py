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
    listing = commands.add_parser("list", help="methods, weights, data sets, conditions and presets")
    doctor = commands.add_parser("doctor", help="this machine and environment, what is missing, and how to add it")
    for command, do in ((listing, _list), (doctor, _doctor)):
        command.add_argument("--data", help="folder that holds one folder a data set; default $BENCH_DATA, else ./data")
        command.add_argument("--plugins", type=absolute, help=PLUGINS)
        command.set_defaults(do=do)
    _pair_flags(commands.add_parser("pair", help="register two files of your own by every method; no truth needed"))
    new = commands.add_parser("new", help="write a method that works, and its test, for you to fill in")
    new.add_argument("name", metavar="NAME", help="lower-case letters, digits and _")
    new.add_argument("--plugins", type=absolute, help="folder of your own to write to; default methods/ and tests/")
    new.set_defaults(do=_new)
    _check_flags(commands.add_parser("check", help="prove that a method conforms, in under a minute"))
    _draw_flags(commands.add_parser("draw", help="draw how a method sees problems of a run"))
    _tune_flags(commands.add_parser("tune", help="search better parameters of a method, on training problems alone"))


def absolute(text: str) -> Path:
    """A path from a flag, absolute, since methods run in processes with another current folder."""
    return Path(text).resolve()


def terminal() -> Console:
    """The terminal; a log gets lines that hold the summary's 100 columns."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, markup=False)  # names hold brackets


def _list(flags: argparse.Namespace) -> None:
    from bench.cli.listing import sections
    from bench.planning.catalog import Catalog

    for title, lines in sections(Catalog.of(flags.data, flags.plugins)).items():
        print(title)
        print("\n".join(f"  {line}" for line in lines))


def _doctor(flags: argparse.Namespace) -> None:
    from bench.cli.doctor import report
    from bench.planning.catalog import Catalog

    facts, missing = report(Catalog.of(flags.data, flags.plugins))
    print("\n".join(facts))
    print("\nmissing" if missing else "\nnothing is missing")
    print("\n".join(f"  {line}" for line in missing))


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
    add("--config", type=Path, metavar="FILE", help="TOML with any of these flags; typed flags win")
    command.set_defaults(do=_pair)


def _pair(flags: argparse.Namespace) -> None:
    from bench.pair.command import PairRequest, run
    from methods.core.registry import MethodRegistry

    names = "source target methods truth points scale out timeout device threads"
    given = {name: getattr(flags, name) for name in names.split()}
    registry = MethodRegistry(flags.plugins)
    run(PairRequest(**given, memory_limit_gb=flags.memory_limit, registry=registry), terminal())


def _new(flags: argparse.Namespace) -> None:
    from bench.cli.scaffold import write

    method, test = write(flags.name, flags.plugins)
    plugins = f" --plugins {relative(flags.plugins)}" if flags.plugins else ""
    print(f"method  {relative(method)}\ntest    {relative(test)}\nnext    python bench.py check {flags.name}{plugins}")


def relative(path: Path) -> Path:
    """A path as seen from the current folder, if it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _check_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help='as for a run: a, a+b, "a[parameter=value]"')
    command.add_argument("--domain", help="data a learned method is set up for; default: that of the main job")
    command.add_argument("--plugins", type=absolute, help=PLUGINS)
    command.set_defaults(do=_check)


def _check(flags: argparse.Namespace) -> int:
    from bench.conformance import command
    from methods.core.registry import MethodRegistry

    return int(
        not command.run(
            MethodRegistry(flags.plugins).spec(flags.name), flags.domain or command.default_domain(), terminal()
        )
    )


def _draw_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("what", choices=["gmm"], help="gmm: the Gaussians of methods that match mixtures")
    add("run", metavar="RUN", help="name or folder of a finished run")
    add("problem", nargs="+", metavar="PROBLEM", help="ids of problems, as in its trials.csv")
    add("--method", metavar="M", help="a method of the run; default: the first that matches mixtures")
    add("--out", type=Path, metavar="STEM", help="files without their ending; default reports/RUN/figures/gaussians_…")
    add("--data", help="folder that holds one folder a data set; default $BENCH_DATA, else ./data")
    add("--plugins", type=absolute, help=PLUGINS)
    command.set_defaults(do=_draw)


def _draw(flags: argparse.Namespace) -> None:
    from bench.planning.catalog import Catalog
    from bench.report import command, gaussians
    from bench.report.replay import ProblemReplay
    from bench.report.style import slug

    folder = command.folder_of(Path(flags.run))
    loaded = command.read(folder)
    redraw = ProblemReplay(loaded, Catalog.of(flags.data, flags.plugins))
    method = flags.method or gaussians.first_method(loaded, redraw.catalog.methods)
    stem = flags.out or command.REPORTS / folder.name / "figures" / f"gaussians_{slug(method, flags.problem[0])}"
    job = gaussians.drawn_job(loaded, redraw, method, flags.problem, stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    for file in job.draw().files:
        print(file)


def _tune_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("method", metavar="METHOD", help="a method that says what a search may vary")
    add("--dataset", required=True, metavar="D", help="a data set of objects, whose train split is used")
    add("--condition", required=True, metavar="C", help="as for a run")
    add("--points", type=int, default=1024, metavar="N", help="points of a cloud")
    add("--budget", type=int, default=300, metavar="CALLS", help="calls of the method on a pair, in all")
    add("--seed", type=int, default=0)
    add("--timeout", type=float, default=20, metavar="S", help="seconds a call may take; more is a failure")
    add("--name", help="of the settings, for METHOD[tuned=NAME]; default: from data set and condition")
    add("--data", help="folder that holds one folder a data set; default $BENCH_DATA, else ./data")
    add("--plugins", type=absolute, help=f"{PLUGINS}; the settings are written there")
    command.set_defaults(do=_tune)


def _tune(flags: argparse.Namespace) -> None:
    from bench import tuning
    from bench.planning.catalog import Catalog

    names = "method dataset condition points budget seed timeout command"
    given = {name: getattr(flags, name) for name in names.split()}
    name = flags.name or tuning.default_name(flags.dataset, flags.condition)
    tuning.run(tuning.TuneRequest(**given, name=name, catalog=Catalog.of(flags.data, flags.plugins)), terminal())
