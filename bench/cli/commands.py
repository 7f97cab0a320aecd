"""Flags and handlers of the commands other than runs and reports. Handlers import what they need, so that `--help` is fast."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.devices import CPU, resolve_flag
from common.devices import HELP as DEVICE_HELP

if TYPE_CHECKING:
    from rich.console import Console

PLUGINS_HELP = "folder with your own methods and data sets"
KIND_HELP = "kind of data, to which settings of methods adapt: objects, scans or range_images"
DATA_HELP = "folder with one folder per data set; default $BENCH_DATA, else ./data"


def add_commands(commands: Any) -> None:
    """Add the commands of this module to the subparsers of the command line."""
    listing = commands.add_parser("list", help="list methods, weights, data sets, conditions and presets")
    doctor = commands.add_parser("doctor", help="show machine and environment, what is missing, and how to add it")
    for command, handler in ((listing, _list), (doctor, _doctor)):
        command.add_argument("--data", help=DATA_HELP)
        command.add_argument("--plugins", type=absolute, help=PLUGINS_HELP)
        command.set_defaults(handler=handler)
    _pair_flags(commands.add_parser("pair", help="register two of your own files; no ground truth needed"))
    new = commands.add_parser("new", help="write a working method and its test as a starting point")
    new.add_argument("name", metavar="NAME", help="lower-case letters, digits and _")
    new.add_argument("--plugins", type=absolute, help="folder to write to; default methods/ and tests/")
    new.add_argument("--workflow", action="store_true", help="write a GitHub workflow that compares changes, too")
    new.set_defaults(handler=_new)
    _check_flags(commands.add_parser("check", help="check that a method conforms to the contract, in under a minute"))
    _draw_flags(commands.add_parser("draw", help="draw the internal state of a method on problems of a run"))
    _show_flags(commands.add_parser("show", help="show one problem of a run with the answers of its methods"))
    _tune_flags(commands.add_parser("tune", help="search better parameters of a method, on training problems only"))


def absolute(text: str) -> Path:
    """Return the absolute path of a flag: method processes have another current folder."""
    return Path(text).resolve()


def terminal(machine: bool = False) -> Console:
    """Return the console of standard output; a log gets lines of 120 columns, so that names are whole.

    Args:
        machine: whether standard output is for JSON, so that messages go to standard error.
    """
    from rich.console import Console

    stream = sys.stderr if machine else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 120, markup=False)  # names hold brackets


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
    add("source", type=Path, metavar="A", help="file to move: ply pcd obj off stl xyz txt pts csv asc npy npz las pth")
    add("target", type=Path, metavar="B", help="file to register A to")
    add("--methods", nargs="+", metavar="M", help="names, as for a run; default: all except controls and the slowest")
    add(
        "--truth",
        type=Path,
        metavar="FILE",
        help="true 4 x 4 matrix from A to B, text, JSON or .npy, to compute errors",
    )
    add("--points", type=int, metavar="N", help="points per cloud given to methods; default 4096")
    add("--scale", type=float, metavar="F", help="factor for the coordinates of A; default: estimated from the sizes")
    add("--kind", metavar="K", help=f"{KIND_HELP}; default: guessed from the clouds")
    add("--out", type=Path, metavar="FOLDER", help="folder to write to; default pairs/A-B")
    add("--timeout", type=float, metavar="S", help="maximum seconds per method")
    add("--memory-limit", type=float, metavar="GB", help="maximum memory per method")
    add("--device", type=resolve_flag, default=CPU, metavar="D", help=DEVICE_HELP)
    add("--threads", type=int, default=1, help="maximum threads per method")
    add("--plugins", type=absolute, help=PLUGINS_HELP)
    add("--config", type=Path, metavar="FILE", help="TOML with any of these flags; the command line has priority")
    command.set_defaults(handler=_pair)


def _pair(flags: argparse.Namespace) -> None:
    from bench.pair.command import PairRequest, run
    from bench.planning.config import default_domain
    from common.kinds import data_kind
    from methods.core.registry import MethodRegistry

    names = "source target methods truth points scale out timeout device threads"
    values = {name: getattr(flags, name) for name in names.split()}
    values["kind"] = data_kind(flags.kind) if flags.kind else None
    # Learned methods use the weights of the main job, since none are trained on the user's files.
    domain, registry = default_domain(), MethodRegistry(flags.plugins)
    run(PairRequest(**values, memory_limit_gb=flags.memory_limit, domain=domain, registry=registry), terminal())


def _new(flags: argparse.Namespace) -> None:
    from bench.cli.scaffold import write_templates, write_workflow

    if flags.workflow:
        print(f"workflow  {relative(write_workflow(flags.name, flags.plugins))}")
    method, test = write_templates(flags.name, flags.plugins)
    plugins = f" --plugins {relative(flags.plugins)}" if flags.plugins else ""
    print(f"method  {relative(method)}\ntest    {relative(test)}\nnext    python bench.py check {flags.name}{plugins}")


def relative(path: Path) -> Path:
    """Return a path relative to the current folder if it lies below it, else unchanged."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _check_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help='as for a run: a, a+b, "a[parameter=value]"')
    command.add_argument("--domain", help="data a learned method is set up for; default: that of the quick preset")
    command.add_argument("--device", type=resolve_flag, default=CPU, metavar="D", help=DEVICE_HELP)
    command.add_argument("--plugins", type=absolute, help=PLUGINS_HELP)
    command.set_defaults(handler=_check_methods)


def _check_methods(flags: argparse.Namespace) -> int:
    from bench.conformance import command
    from bench.planning.config import default_domain
    from methods.core.registry import MethodRegistry

    method = MethodRegistry(flags.plugins).spec(flags.name)
    return int(not command.run(method, flags.domain or default_domain(), terminal(), flags.device))


def _draw_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("what", choices=["gmm"], help="gmm: the Gaussians of methods that match mixtures")
    add("run", metavar="RUN", help="name or folder of a finished run")
    add("problem", nargs="+", metavar="PROBLEM", help="problem ids, as in trials.csv of the run")
    add("--method", metavar="M", help="a method of the run; default: the first that matches mixtures")
    add("--out", type=Path, metavar="STEM", help="output path without suffix; default reports/RUN/figures/gaussians_…")
    add("--data", help=DATA_HELP)
    add("--plugins", type=absolute, help=PLUGINS_HELP)
    command.set_defaults(handler=_draw)


def _draw(flags: argparse.Namespace) -> None:
    from bench.planning.catalog import Catalog
    from bench.report import command, gaussians
    from bench.report.replay import ProblemReplay
    from bench.report.style import slug
    from common.files import make_folder

    folder = command.folder_of(Path(flags.run))
    run_data = command.read(folder)
    replay = ProblemReplay(run_data, Catalog.of(flags.data, flags.plugins))
    method = flags.method or gaussians.first_method(run_data, replay.catalog.methods)
    stem = flags.out or command.REPORTS / folder.name / "figures" / f"gaussians_{slug(method, flags.problem[0])}"
    job = gaussians.drawn_job(run_data, replay, method, flags.problem, stem)
    make_folder(stem.parent)
    for file in job.draw().files:
        print(file)


def _show_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("run", metavar="RUN", help="name or folder of a finished run")
    add("problem", metavar="PROBLEM", help="problem id, as in trials.csv of the run")
    add(
        "--methods",
        nargs="+",
        default=[],
        metavar="M",
        help="methods of the run; default: all, and the best in the picture",
    )
    add("--out", type=Path, metavar="FOLDER", help="folder to write to; default reports/RUN/problems")
    add("--data", help=DATA_HELP)
    add("--plugins", type=absolute, help=PLUGINS_HELP)
    command.set_defaults(handler=_show)


def _show(flags: argparse.Namespace) -> None:
    from bench.evaluation.conventions import convention
    from bench.planning.catalog import Catalog
    from bench.report import command, show
    from bench.report.replay import ProblemReplay

    folder = command.folder_of(Path(flags.run))
    loaded = command.read(folder)
    replay = ProblemReplay(loaded, Catalog.of(flags.data, flags.plugins))
    out = flags.out or command.REPORTS / folder.resolve().name / "problems"
    for file in show.write_view(loaded, replay, flags.problem, flags.methods, convention(None, None), out):
        print(file)


def _tune_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("method", metavar="METHOD", help="a method that declares a search space")
    add("--dataset", required=True, metavar="D", help="a data set of objects; its train split is used")
    add("--condition", required=True, metavar="C", help="as for a run")
    add("--points", type=int, default=1024, metavar="N", help="points per cloud")
    add("--budget", type=int, default=300, metavar="CALLS", help="total number of calls of the method")
    add("--seed", type=int, default=0)
    add("--timeout", type=float, default=20, metavar="S", help="time-out of a call; exceeding it is a failure")
    add("--device", type=resolve_flag, default=CPU, metavar="D", help=DEVICE_HELP)
    add("--name", help="name of the settings, for METHOD[tuned=NAME]; default: from data set and condition")
    add("--data", help=DATA_HELP)
    add("--plugins", type=absolute, help=f"{PLUGINS_HELP}; the settings are written there")
    command.set_defaults(handler=_tune)


def _tune(flags: argparse.Namespace) -> None:
    from bench import tuning
    from bench.planning.catalog import Catalog

    names = "method dataset condition points budget seed timeout device command"
    values = {name: getattr(flags, name) for name in names.split()}
    name = flags.name or tuning.default_name(flags.dataset, flags.condition)
    tuning.run(tuning.TuneRequest(**values, name=name, catalog=Catalog.of(flags.data, flags.plugins)), terminal())
