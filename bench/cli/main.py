"""The command line. Imports what a command needs when it is called, so that `--help` is instant."""

from __future__ import annotations

import argparse
import codecs
import io
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bench.cli.commands import PLUGINS, absolute, add_commands, terminal
from common.errors import InputError, storage_error, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from bench.planning.catalog import Catalog
    from bench.planning.config import RunConfig

ROOT = Path(__file__).resolve().parents[2]
NAMED_AFTER = 60
"""Letters of the data sets' names in the name of a run that was given none."""


class Parser(argparse.ArgumentParser):
    """Tells of a bad flag in one line, as of any other bad input."""

    def error(self, message: str) -> NoReturn:
        """Raise an `InputError` with argparse's message."""
        raise InputError(f"{message}; {self.prog} --help lists the flags")


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for bad input, 130 after Ctrl-C."""
    arguments = sys.argv[1:] if argv is None else argv
    _print_anywhere()
    parser, commands = _parser(train=arguments[:1] == ["train"])
    try:
        typed = _typed(arguments, commands)
        flags = parser.parse_args(typed)
        flags.command = _recorded(arguments)
        if getattr(flags, "config", None):
            flags = _with_config(parser, typed, flags)
        return int(flags.do(flags) or 0)
    except InputError as error:
        print(f"bench.py: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if (ROOT / package).exists():  # of ours: a fault, which its traceback tells best
            raise
        missing = f"package {package} is missing for {sys.executable}; `make bench` once installs all, then it is"
        print(f"bench.py: {missing} .venv/bin/python bench.py …", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        told = storage_error(error)
        if told is None:  # a fault of ours
            raise
        print(f"bench.py: {told}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        said = f"stopped; what is finished is recorded, and the same command continues: {_recorded(arguments)}"
        print(f"\n{said}", file=sys.stderr)
        return 130


_ASCII = {"–": "-", "—": "-", "−": "-", "→": ">", "×": "x", "·": ".", "…": ".", "α": "a", "σ": "s", "°": " "}


def _print_anywhere() -> None:
    """Let terminals that lack a letter show another of the same width, so that tables keep their columns."""

    def other(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(_ASCII.get(c, "?") for c in error.object[error.start : error.end]), error.end

    codecs.register_error("bench", other)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="bench")


def _typed(arguments: list[str], commands: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """The arguments with the command that they leave out.

    Raises:
        InputError: there is no such command, or the command has no such flag.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        return arguments
    if arguments and not arguments[0].startswith("-") and arguments[0] not in commands:
        raise unknown("command", arguments[0], commands)
    typed = arguments if arguments and arguments[0] in commands else ["run", *arguments]
    flags = [flag for flag in commands[typed[0]]._option_string_actions if flag.startswith("--")]
    for word in typed[1:]:
        name = word.split("=")[0]
        if name.startswith("--") and not any(flag.startswith(name) for flag in flags):  # argparse takes abbreviations
            raise unknown(f"flag of {typed[0]}", name, flags)
    return typed


def _with_config(parser: argparse.ArgumentParser, typed: list[str], flags: argparse.Namespace) -> argparse.Namespace:
    """The flags with those of the configuration file before those that were typed."""
    from bench.planning import config_file

    said = config_file.read(flags.config)
    known = {name.replace("_", "-") for name in vars(flags)} - {
        "do",
        "command",
        "config",
        "overrides",
        "source",
        "target",
    }
    try:
        made = parser.parse_args([typed[0], *said.arguments(known), *typed[1:]])
    except InputError as error:  # what was typed is good by itself
        raise InputError(str(error) if "config" in str(error) else f"--config {flags.config}: {error}") from error
    made.command, made.overrides = flags.command, said.tables
    return made


def _recorded(arguments: list[str]) -> str:
    """The command as it is recorded: where the data lie is the user's own affair."""
    shown = list(arguments)
    for place, word in enumerate(arguments):
        if word.startswith("--data="):
            shown[place] = "--data=$BENCH_DATA"
        elif word == "--data" and place + 1 < len(arguments):
            shown[place + 1] = "$BENCH_DATA"
    return " ".join(w if w.endswith("$BENCH_DATA") else shlex.quote(w) for w in ["bench.py", *shown])


def _parser(train: bool) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The command line, and each command's own part of it by name."""
    parser = Parser(
        prog="bench.py",
        description="Registration methods for 3D point clouds, side by side. Without a command: run.",
        epilog="the main job: bench.py --methods all",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="run methods on problems; write CSVs, plots and a report (the default)")
    _run_flags(run)
    report = commands.add_parser("report", help="write CSVs and report of a run again, from its stored poses")
    _report_flags(report)
    compare = commands.add_parser("compare", help="what got better or worse from run A to run B, on the same problems")
    _compare_flags(compare)
    problems = commands.add_parser("problems", help="tell the SHA-256 of problem sets, and write them to a file")
    _problem_flags(problems)
    problems.add_argument("--export", type=Path, metavar="FILE", help="HDF5 file to write, which a run reads back")
    problems.set_defaults(do=_problems)
    data = commands.add_parser("data", help="download and prepare a data set, or take it from where it is on disk")
    data.add_argument("name", metavar="NAME", help="a data set (bench.py list)")
    data.add_argument("--from", dest="source", type=Path, metavar="PATH", help="archive or unpacked folder on disk")
    data.add_argument("--data", help="folder that holds one folder a data set; default $BENCH_DATA, else ./data")
    data.add_argument("--plugins", type=absolute, help=PLUGINS)
    data.set_defaults(do=_data)
    add_commands(commands)
    training = commands.add_parser("train", help="train a learned method")
    if train:  # its flags are its own, and importing them takes a while
        _train_flags(training)
    return parser, commands.choices


def _problem_flags(command: argparse.ArgumentParser) -> None:
    """What says which problems there are."""
    add = command.add_argument
    add("--datasets", nargs="+", metavar="D", help="data sets (bench.py list)")
    add("--conditions", nargs="+", metavar="C", help='clean noisy unseen resampled "noisy[sigma=0.02]"')
    add("--points", nargs="+", metavar="N", help="points of a cloud, one or several")
    add("--angles", nargs="+", metavar="DEG", help="edges of bins of rotation magnitude, in degrees: 0 30 60 90")
    add("--max-angle", type=float, metavar="DEG", help="largest rotation, in degrees")
    add("--sampler", help="of rotations: axis_angle, haar, euler45")
    add("--problems", type=int, metavar="N", help="problems of each condition")
    add("--seed", type=int, default=0)
    add("--preset", default="quick", help="what is not said otherwise (bench.py list)")
    add("--data", help="folder that holds one folder a data set; default $BENCH_DATA, else ./data")
    add("--plugins", type=absolute, help=PLUGINS)
    add("--skip-bad", action="store_true", help="leave out files that do not read, instead of stopping")
    add("--config", type=Path, metavar="FILE", help="TOML with any of these flags, or a run.json; typed flags win")
    command.set_defaults(overrides={})


def _run_flags(run: argparse.ArgumentParser) -> None:
    _problem_flags(run)
    add = run.add_argument
    add("--methods", nargs="+", default=["all"], metavar="M", help='all, or names: a a+b "a[parameter=value]"')
    add("--timing-rounds", type=int, metavar="N", help="timed calls of each method at each point count (0: none)")
    add("--out", metavar="NAME", help="names results/NAME and reports/NAME, below the current folder")
    add("--jobs", type=int, default=min(os.cpu_count() or 1, 8), help="processes for the accuracy problems")
    add("--backend", default="loky", choices=["loky", "dask"], help="processes of this machine, or a Dask cluster")
    add("--scheduler", default="", metavar="ADDRESS", help="of the Dask scheduler, such as tcp://10.0.0.1:8786")
    add("--threads", type=int, default=1, help="threads a method may use")
    add("--device", default="cpu", help="of learned methods: cpu or cuda")
    add("--repeats", type=int, default=1, metavar="N", help="times a random method solves each problem, by other seeds")
    add("--batch", type=int, default=1, metavar="B", help="pairs at once for methods that take batches (such as 32)")
    add("--timeout", type=float, metavar="S", help="seconds a method may take for a pair")
    add("--memory-limit", type=float, metavar="GB", help="memory a method may use for a pair")
    add("--fresh", action="store_true", help="start over instead of continuing")
    add("--dry-run", action="store_true", help="print what would be done and about how long it takes")
    run.set_defaults(do=_run)


def _report_flags(report: argparse.ArgumentParser) -> None:
    add = report.add_argument
    add(
        "run",
        type=Path,
        nargs="+",
        help="names or folders of runs, such as results/NAME; several are reported together",
    )
    _convention_flags(report)
    add("--against", choices=["paper"], help="put the numbers that the paper prints beside ours")
    add("--out", metavar="NAME", help="names reports/NAME, below the current folder")
    add("--data", help="folder that holds one folder a data set, for pictures; default $BENCH_DATA, else ./data")
    add("--plugins", type=absolute, help="folder with data sets of your own")
    report.set_defaults(do=_report)


def _compare_flags(compare: argparse.ArgumentParser) -> None:
    add = compare.add_argument
    add("run", type=Path, nargs=2, metavar="RUN", help="names or folders of two runs: before and after")
    _convention_flags(compare)
    add(
        "--fail-on-regression",
        action="store_true",
        help="exit with 1 if recall, answers or errors got significantly worse",
    )
    compare.set_defaults(do=_compare)


def _convention_flags(command: argparse.ArgumentParser) -> None:
    names = " ".join(tomllib.loads((ROOT / "bench" / "evaluation" / "conventions.toml").read_text(encoding="utf-8")))
    command.add_argument("--convention", metavar="NAME", help=f"what is an error and a success: {names}")
    command.add_argument("--threshold", type=float, nargs="+", metavar="T", help="other limits of success than its own")


def _train_flags(train: argparse.ArgumentParser) -> None:
    from methods.learned import training, training_config

    training_config.add_arguments(train)
    train.set_defaults(do=lambda flags: training.run(flags))


def _run(flags: argparse.Namespace) -> None:
    from bench.execution import run
    from bench.execution.context import RunContext
    from bench.planning import config
    from bench.planning.catalog import Catalog
    from bench.storage import run_folder
    from bench.storage.database import explained

    catalog = Catalog.of(flags.data, flags.plugins)
    run_config = config.from_flags(flags, catalog)
    if not "".join(flags.methods).strip(" ,"):
        raise InputError("--methods: names none; give names, or all")
    if flags.jobs < 1:
        raise InputError("--jobs: must be at least 1")
    if (flags.backend == "dask") != bool(flags.scheduler):
        raise InputError("--backend dask and --scheduler tcp://HOST:PORT go together; give both")
    if flags.dry_run:
        _dry_run(run_config, flags.jobs)
        return
    folder = _run_folder(run_config, flags)
    console = terminal()
    context = RunContext(folder, catalog, flags.jobs, console, flags.command, flags.scheduler, flags.fresh)
    with explained(folder / run_folder.RECORD):
        run.run(run_config, context).close()
    write_report(folder, catalog, console)


def _run_folder(run_config: RunConfig, flags: argparse.Namespace) -> Path:
    """Return the folder of the run.

    Raises:
        InputError: the run may not write there, or its report may not write to its own folder.
    """
    from bench.report import command
    from bench.storage import environment, run_folder

    data_sets = re.sub(r"[^\w.]+", "-", "-".join(dataset.text for dataset in run_config.datasets)).strip("-")[
        :NAMED_AFTER
    ]
    folder = run_folder.named(flags.out or f"{flags.preset}-{data_sets}-{run_config.hash[:8]}", command.RESULTS)
    run_folder.check_run(folder)
    run_folder.check_report(command.REPORTS / folder.resolve().name)
    environment.refuse_changes(folder)
    return folder


def _dry_run(run_config: RunConfig, jobs: int) -> None:
    from bench.planning import dry_run
    from bench.planning.tasks import make_groups
    from bench.report import command

    times = dry_run.recorded_times(command.RESULTS, run_config)
    print("\n".join(dry_run.plan(run_config, make_groups(run_config), jobs, times)))


def _problems(flags: argparse.Namespace) -> None:
    from bench.planning import config, export_problems
    from bench.planning.catalog import Catalog
    from bench.planning.tasks import make_groups

    groups = make_groups(config.problems_config(flags, Catalog.of(flags.data, flags.plugins)))
    for group in groups:
        if group.skip:
            print(f"{group.name} is skipped: {group.skip}", file=sys.stderr)
    live = [group for group in groups if not group.skip]
    digests = export_problems.export(flags.export, live) if flags.export else export_problems.hashes(live)
    for name, sha256 in digests.items():
        print(f"{sha256}  {name}")


def _data(flags: argparse.Namespace) -> None:
    from datasets.download import install_archives
    from datasets.registry import DataRegistry

    registry = DataRegistry.at(flags.data, flags.plugins)
    dataset = registry.spec(flags.name).build()
    print(f"{flags.name}: licence: {dataset.licence}")
    if dataset.archives:
        install_archives(dataset.name, dataset.archives, registry.root, flags.source, print)
    elif flags.source:
        raise InputError(f"--from: {dataset.name} has no archive to take; {dataset.where}")
    print(f"{flags.name}: {registry.spec(flags.name).build().prepare()}, ready")


def _report(flags: argparse.Namespace) -> None:
    from bench.planning.catalog import Catalog
    from bench.report import command

    catalog = Catalog.of(flags.data, flags.plugins)
    folders = [command.folder_of(run) for run in flags.run]
    options = flags.convention, flags.threshold, flags.against is not None, flags.out
    command.write(command.ReportRequest(folders, command.REPORTS, catalog, *options), terminal())


def _compare(flags: argparse.Namespace) -> int:
    from bench.evaluation import compare
    from bench.evaluation.conventions import convention
    from bench.report import command
    from bench.report.terminal import comparison_summary

    folders = [command.folder_of(run) for run in flags.run]
    names = folders[0].resolve().name, folders[1].resolve().name
    view = convention(flags.convention, flags.threshold)
    found = compare.compare(command.read(folders[0]), command.read(folders[1]), names, view)
    terminal().print(comparison_summary(found, names))
    return int(flags.fail_on_regression and bool(found.regressions))


def write_report(folder: Path, catalog: Catalog, console: Console) -> None:
    """Write everything a person reads of a run: CSVs beside the database, plots and report, the terminal's summary."""
    from bench.report import command

    command.write(command.ReportRequest([folder], command.REPORTS, catalog), console)
