"""Command line: parse the arguments and call a command. Handlers import what they need, so that `--help` is fast."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from bench.cli.commands import DATA_HELP, KIND_HELP, PLUGINS_HELP, absolute, add_commands, terminal
from bench.cli.sharing import add_sharing_commands
from common.devices import CPU, resolve_flag
from common.devices import HELP as DEVICE_HELP
from common.errors import InputError, storage_error, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from bench.planning.catalog import Catalog
    from bench.planning.config import RunConfig

ROOT = Path(__file__).resolve().parents[2]
MAX_DATASET_CHARACTERS = 60
"""Maximum length of the data sets' part in the default name of a run."""
INTERRUPTED = 130
"""Exit code after Ctrl-C."""
SKIP_BAD_HELP = "leave out files that cannot be read, instead of stopping"
NOT_IN_CONFIG = {"handler", "command", "config", "overrides", "source", "target", "typed"}
"""Attributes of the parsed flags that a configuration file cannot set."""


class Parser(argparse.ArgumentParser):
    """Parser that knows the names of its flags and raises an `InputError` for bad input."""

    def __init__(self, **options: Any) -> None:
        self.flags: list[str] = []  # first, since the base class adds --help
        self.actions: list[argparse.Action] = []
        super().__init__(**options)

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:  # type: ignore[override]
        """Add an argument as the base class does, and keep the names of flags."""
        self.flags += [name for name in names if name.startswith("--")]
        self.actions.append(super().add_argument(*names, **options))
        return self.actions[-1]

    def error(self, message: str) -> NoReturn:
        """Raise an `InputError` with argparse's message."""
        raise InputError(f"{message}; {self.prog} --help lists the flags")


def main(argv: list[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for a failed check, 2 for bad input, 128 + N after signal N (130: Ctrl-C)."""
    from common.processes import like_ctrl_c

    with like_ctrl_c() as signals:
        code = _main(argv)
    return 128 + signals[0] if signals and code == INTERRUPTED else code


def _main(argv: list[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    _replace_unencodable_characters()
    parser, commands = _parser(train=arguments[:1] == ["train"])
    try:
        typed = _with_command(arguments, commands)
        flags = parser.parse_args(typed)
        flags.command = _command_text(arguments)
        if getattr(flags, "config", None):
            flags = _with_config(parser, commands[typed[0]], typed, flags)
        return int(flags.handler(flags) or 0)
    except InputError as error:
        print(f"bench.py: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if (ROOT / package).exists():  # a module of this repository: a bug, so show the traceback
            raise
        remedy = "`make bench` installs all packages; then run .venv/bin/python bench.py …"
        print(f"bench.py: package {package} is missing for {sys.executable}; {remedy}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        reason = storage_error(error)
        if reason is None:  # a bug
            raise
        print(f"bench.py: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        line = f"stopped; finished outcomes are stored, and the same command continues: {_command_text(arguments)}"
        with contextlib.suppress(OSError):  # the terminal may be closed
            print(f"\n{line}", file=sys.stderr)
        return INTERRUPTED


_ASCII = {"–": "-", "—": "-", "−": "-", "→": ">", "×": "x", "·": ".", "…": ".", "α": "a", "σ": "s", "°": " "}
"""Characters of tables and messages to ASCII ones of the same width, so that columns stay aligned."""


def _replace_unencodable_characters() -> None:
    """Print an ASCII character where the encoding of the terminal lacks one."""

    def replacement(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(_ASCII.get(c, "?") for c in error.object[error.start : error.end]), error.end

    codecs.register_error("bench", replacement)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="bench")


def _with_command(arguments: list[str], commands: Mapping[str, Parser]) -> list[str]:
    """Return the arguments, with `run` in front if they name no command.

    Raises:
        InputError: the command does not exist or has no such flag.
    """
    if arguments[:1] in (["-h"], ["--help"], ["--version"]):
        return arguments
    if arguments and not arguments[0].startswith("-") and arguments[0] not in commands:
        raise unknown("command", arguments[0], commands)
    typed = arguments if arguments and arguments[0] in commands else ["run", *arguments]
    flags = commands[typed[0]].flags
    for word in typed[1:]:
        name = word.split("=")[0]
        if name.startswith("--") and not any(flag.startswith(name) for flag in flags):  # argparse takes abbreviations
            raise unknown(f"flag of {typed[0]}", name, flags)
    return typed


def _with_config(parser: Parser, command: Parser, typed: list[str], flags: argparse.Namespace) -> argparse.Namespace:
    """Return the flags of the configuration file, overridden by those of the command line."""
    from bench.planning import config_file

    content = config_file.read(flags.config)
    known = {
        name[2:]: _type_of(action)
        for action in command.actions
        for name in action.option_strings
        if action.dest in vars(flags).keys() - NOT_IN_CONFIG
    }
    try:
        merged = parser.parse_args([typed[0], *content.arguments(known), *typed[1:]])
    except InputError as error:  # the command line was parsed before without error, so the file is wrong
        raise InputError(str(error) if "config" in str(error) else f"--config {flags.config}: {error}") from error
    merged.command, merged.overrides, merged.typed = flags.command, content.tables, flags
    return merged


def _type_of(action: argparse.Action) -> str:
    """Return the type that the value of a flag has in a configuration file."""
    from bench.planning import config_file

    if action.nargs == 0:
        return config_file.SWITCH
    if action.nargs == "+":
        return {"points": config_file.INTEGERS, "angles": config_file.NUMBERS}.get(action.dest, config_file.TEXTS)
    types: dict[Any, str] = {int: config_file.INTEGER, float: config_file.NUMBER}
    return types.get(action.type, config_file.TEXT)


def _command_text(arguments: list[str]) -> str:
    """Return the command line as it is recorded, without the path of the data folder."""
    words = list(arguments)
    for index, word in enumerate(arguments):
        if word.startswith("--data="):
            words[index] = "--data=$BENCH_DATA"
        elif word == "--data" and index + 1 < len(arguments):
            words[index + 1] = "$BENCH_DATA"
    return " ".join(w if w.endswith("$BENCH_DATA") else shlex.quote(w) for w in ["bench.py", *words])


@cache
def _parser(train: bool) -> tuple[Parser, Mapping[str, Parser]]:
    """Return the parser, and the parser of each command by name; the same ones each time.

    Args:
        train: whether to add the flags of `train`, whose import takes a while.
    """
    parser = Parser(
        prog="bench.py",
        description="Compare registration methods for 3D point clouds. Without a command: run.",
        epilog="example: bench.py --methods all",
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="run methods on problems; write CSVs, plots and a report (the default)")
    _run_flags(run)
    report = commands.add_parser("report", help="write CSVs and report of a run again, from its stored poses")
    _report_flags(report)
    compare = commands.add_parser("compare", help="compare two runs on the same problems")
    _compare_flags(compare)
    verify = commands.add_parser("verify", help="check a run by computing again everything that can be")
    _verify_flags(verify)
    problems = commands.add_parser("problems", help="print the SHA-256 of problem sets, and write them to a file")
    _problem_flags(problems)
    problems.add_argument(
        "--export", type=Path, metavar="FILE", help="HDF5 file to write; runs can read it as a data set"
    )
    problems.set_defaults(handler=_export_problems)
    data = commands.add_parser("data", help="download and prepare a data set, or import it from disk")
    data.add_argument("name", metavar="NAME", help="a data set (bench.py list)")
    data.add_argument("--from", dest="source", type=Path, metavar="PATH", help="archive or unpacked folder on disk")
    data.add_argument("--data", help=DATA_HELP)
    data.add_argument("--plugins", type=absolute, help=PLUGINS_HELP)
    data.add_argument("--skip-bad", action="store_true", help=SKIP_BAD_HELP)
    data.set_defaults(handler=_data)
    add_sharing_commands(commands)
    add_commands(commands)
    training = commands.add_parser("train", help="train a learned method")
    if train:
        _train_flags(training)
    return parser, commands.choices


@cache
def _version() -> str:
    """Return the name and the version of this benchmark."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return f"registration-bench {content['project']['version']}"


def _problem_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that define the problems."""
    add = command.add_argument
    add("--datasets", nargs="+", metavar="D", help="data sets (bench.py list)")
    add("--conditions", nargs="+", metavar="C", help='such as clean noisy unseen resampled "noisy[sigma=0.02]"')
    add("--points", nargs="+", metavar="N", help="points per cloud, one or several")
    add("--angles", nargs="+", metavar="DEG", help="bin edges of the rotation angle in degrees: 0 30 60 90")
    add("--max-angle", type=float, metavar="DEG", help="maximum rotation angle in degrees")
    add("--sampler", help="sampler of poses: axis_angle, haar, euler45, euler45_box, euler180_box")
    add("--problems", type=int, metavar="N", help="problems per condition")
    add("--seed", type=int, default=0)
    add("--preset", default="quick", help="values of flags that are not given (bench.py list)")
    add("--data", help=DATA_HELP)
    add("--plugins", type=absolute, help=PLUGINS_HELP)
    add("--skip-bad", action="store_true", help=SKIP_BAD_HELP)
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML with any of these flags, or a run.json; the command line has priority",
    )
    command.set_defaults(overrides={})


def _run_flags(run: argparse.ArgumentParser) -> None:
    _problem_flags(run)
    add = run.add_argument
    add("--methods", nargs="+", default=["all"], metavar="M", help='all, or names: a a+b "a[parameter=value]"')
    add("--timing-rounds", type=int, metavar="N", help="timed calls per method and point count (0: none)")
    add("--out", metavar="NAME", help="write results/NAME and reports/NAME below the current folder")
    add("--jobs", type=int, default=min(os.cpu_count() or 1, 8), help="worker processes of the accuracy phase")
    add("--backend", default="loky", choices=["loky", "dask"], help="local processes or a Dask cluster")
    add("--scheduler", default="", metavar="ADDRESS", help="address of the Dask scheduler, such as tcp://10.0.0.1:8786")
    add("--threads", type=int, default=1, help="maximum threads per method")
    add("--device", type=resolve_flag, default=CPU, metavar="D", help=DEVICE_HELP)
    add("--kind", metavar="K", help=f"{KIND_HELP}; default: that of each data set")
    add(
        "--repeats",
        type=int,
        default=1,
        metavar="N",
        help="repeats per problem of random methods, each with its own seed",
    )
    add("--batch", type=int, default=1, metavar="B", help="pairs per call of methods that support batches, such as 32")
    add("--timeout", type=float, metavar="S", help="maximum seconds per pair")
    add("--memory-limit", type=float, metavar="GB", help="maximum memory per pair")
    add("--shard", metavar="K/N", help="do part K of N of the run, such as 3/20; merge joins the parts")
    add("--fresh", action="store_true", help="start over instead of continuing")
    _against_flag(run)
    add("--json", action="store_true", help="print the summary as JSON; messages go to standard error")
    add("--dry-run", action="store_true", help="print the plan and the estimated time, and stop")
    run.set_defaults(handler=_run)


def _report_flags(report: argparse.ArgumentParser) -> None:
    add = report.add_argument
    add("run", type=Path, nargs="+", help="names or folders of runs, such as results/NAME; several give one report")
    _convention_flags(report)
    _against_flag(report)
    add(
        "--no-as-good",
        dest="as_good",
        action="store_false",
        help="leave recall_as_good, the ceiling and estimated symmetries out",
    )
    add("--methods", nargs="+", default=[], metavar="M", help="report these methods of the run only")
    add("--conditions", nargs="+", default=[], metavar="C", help="report these conditions of the run only")
    add("--width", choices=["column", "page"], default="page", help="width of figures: a column or a page of a paper")
    add("--style", type=absolute, metavar="FILE", help="matplotlib style file for figures")
    add("--colour", action="store_true", help="coloured LaTeX tables (need xcolor)")
    add("--json", action="store_true", help="print the summary as JSON")
    add("--parquet", action="store_true", help="write the tables as Parquet beside the CSVs, too (needs pyarrow)")
    add("--out", metavar="NAME", help="write reports/NAME below the current folder")
    add("--data", help=f"{DATA_HELP}; for pictures")
    add("--plugins", type=absolute, help=PLUGINS_HELP)
    report.set_defaults(handler=_report)


def _against_flag(command: argparse.ArgumentParser) -> None:
    """Add `--against`; the names of protocols are those of the packaged table, read without a library."""
    lines = (ROOT / "bench" / "report" / "published.csv").read_text(encoding="utf-8").splitlines()[1:]
    names = ["paper", *dict.fromkeys(line.split(",")[0] for line in lines)]
    text = f"show published numbers beside ours: {', '.join(names)} (paper: of DeepGMR)"
    command.add_argument("--against", choices=names, metavar="NAME", help=text)


def _compare_flags(compare: argparse.ArgumentParser) -> None:
    add = compare.add_argument
    add("run", type=Path, nargs=2, metavar="RUN", help="names or folders of two runs: before and after")
    _convention_flags(compare)
    regressions = "exit with 1 if recall, answer rate or errors got significantly worse"
    add("--fail-on-regression", action="store_true", help=regressions)
    compare.set_defaults(handler=_compare)


def _verify_flags(verify: argparse.ArgumentParser) -> None:
    add = verify.add_argument
    add("run", type=Path, help="name or folder of a run, such as results/NAME")
    add("--budget", type=float, default=90, metavar="S", help="seconds for solving problems again; 0 for none")
    add("--seed", type=int, help="of the choice of problems to solve again; default: unpredictable")
    add("--json", action="store_true", help="print the verdict as JSON")
    add("--data", help=DATA_HELP)
    add("--plugins", type=absolute, help=PLUGINS_HELP)
    verify.set_defaults(handler=_verify)


@cache
def _convention_names() -> str:
    """Return the names of the conventions, without importing their module."""
    return " ".join(tomllib.loads((ROOT / "bench" / "evaluation" / "conventions.toml").read_text(encoding="utf-8")))


def _convention_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--convention", metavar="NAME", help=f"definition of error and success: {_convention_names()}")
    command.add_argument(
        "--threshold", type=float, nargs="+", metavar="T", help="success thresholds instead of the convention's own"
    )


def _train_flags(train: argparse.ArgumentParser) -> None:
    from methods.learned import training, training_config

    training_config.add_arguments(train)
    train.set_defaults(handler=training.run)


def _run(flags: argparse.Namespace) -> None:
    from bench.execution import run
    from bench.execution.context import RunContext
    from bench.planning import config
    from bench.planning.catalog import Catalog
    from bench.planning.tasks import WHOLE, Shard
    from bench.storage import run_folder
    from bench.storage.database import translate_errors

    catalog = Catalog.of(flags.data, flags.plugins)
    run_config = _configured(config.from_flags, flags, catalog)
    if not "".join(flags.methods).strip(" ,"):
        raise InputError("--methods: is empty; give names, or all")
    if not 1 <= flags.jobs <= config.MAX_JOBS:
        raise InputError(f"--jobs: must be 1 to {config.MAX_JOBS}")
    if (flags.backend == "dask") != bool(flags.scheduler):
        raise InputError("--backend dask and --scheduler tcp://HOST:PORT go together; give both")
    if flags.dry_run:
        _dry_run(run_config, flags.jobs)
        return
    folder = _run_folder(run_config, flags)
    console = terminal(flags.json)
    shard = Shard.parse(flags.shard) if flags.shard else WHOLE
    context = RunContext(folder, catalog, flags.jobs, console, flags.command, flags.scheduler, shard, flags.fresh)
    with translate_errors(folder / run_folder.DATABASE_NAME):
        run.run(run_config, context).close()
    write_report(folder, catalog, console, flags.json, flags.against)


def _configured(
    make: Callable[[argparse.Namespace, Catalog], RunConfig], flags: argparse.Namespace, catalog: Catalog
) -> RunConfig:
    """Return the configuration that `make` gives for the flags.

    Raises:
        InputError: a value is wrong; the message names the configuration file if the command line alone has no such error.
    """
    try:
        return make(flags, catalog)
    except InputError as error:
        if not flags.config or str(flags.config) in str(error):
            raise
        try:
            make(flags.typed, catalog)
        except InputError as own:
            if str(own) == str(error):
                raise
        raise InputError(f"--config {flags.config}: {error}") from error


def _run_folder(run_config: RunConfig, flags: argparse.Namespace) -> Path:
    """Return the folder of a run.

    Raises:
        InputError: the run or its report may not write to its folder.
    """
    from bench.report import command
    from bench.storage import environment, run_folder
    from common import files

    data_sets = re.sub(r"[^\w.]+", "-", "-".join(dataset.text for dataset in run_config.datasets)).strip("-")
    default = f"{flags.preset}-{data_sets[:MAX_DATASET_CHARACTERS]}-{run_config.hash[:8]}"
    folder = run_folder.resolve_folder(flags.out or default, command.RESULTS)
    run_folder.check_run_folder(folder)
    files.check_writable(folder)
    run_folder.check_report_folder(command.REPORTS / folder.resolve().name)
    environment.require_clean_checkout(folder)
    return folder


def _dry_run(run_config: RunConfig, jobs: int) -> None:
    from bench.planning import dry_run
    from bench.planning.tasks import make_groups
    from bench.report import command
    from bench.storage.environment import processor

    times = dry_run.recorded_times(command.RESULTS, run_config, processor())
    print("\n".join(dry_run.plan(run_config, make_groups(run_config), jobs, times)))


def _export_problems(flags: argparse.Namespace) -> None:
    from bench.planning import config, export_problems
    from bench.planning.catalog import Catalog
    from bench.planning.tasks import make_groups

    groups = make_groups(_configured(config.problems_config, flags, Catalog.of(flags.data, flags.plugins)))
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
        raise InputError(f"--from: {dataset.name} has no archive to import; {dataset.where}")
    spec = registry.spec(flags.name)
    dataset = (spec.skipping_bad() if flags.skip_bad else spec).build()
    print(f"{flags.name}: {dataset.prepare()}, ready")
    for remark in dataset.remarks:
        print(f"  {remark}")


def _report(flags: argparse.Namespace) -> None:
    from bench.planning.catalog import Catalog
    from bench.report import command

    catalog = Catalog.of(flags.data, flags.plugins)
    folders = [command.folder_of(run) for run in flags.run]
    options = flags.convention, flags.threshold, flags.against, flags.out, flags.as_good
    part = flags.methods, flags.conditions, flags.width, flags.style, flags.colour, flags.json, flags.parquet
    command.write(command.ReportRequest(folders, command.REPORTS, catalog, *options, *part), terminal(flags.json))


def _compare(flags: argparse.Namespace) -> int:
    from bench.evaluation import compare
    from bench.evaluation.conventions import convention
    from bench.report import command
    from bench.report.terminal import comparison_summary

    folders = [command.folder_of(run) for run in flags.run]
    names = folders[0].resolve().name, folders[1].resolve().name
    criterion = convention(flags.convention, flags.threshold)
    comparison = compare.compare(command.read(folders[0]), command.read(folders[1]), names, criterion)
    terminal().print(comparison_summary(comparison, names))
    return int(flags.fail_on_regression and bool(comparison.regressions))


def _verify(flags: argparse.Namespace) -> int:
    from bench.planning.catalog import Catalog
    from bench.report import command, verify
    from common.keys import check_seed

    check_seed(flags.seed or 0)
    catalog = Catalog.of(flags.data, flags.plugins)
    request = verify.VerifyRequest(command.folder_of(flags.run), catalog, flags.budget, flags.seed)
    return int(not verify.run(request, terminal(), flags.json))


def write_report(
    folder: Path, catalog: Catalog, console: Console, as_json: bool = False, against: str | None = None
) -> None:
    """Write the CSVs of a run beside its database, its plots and its report, and print the summary."""
    from bench.report import command

    command.write(command.ReportRequest([folder], command.REPORTS, catalog, against=against, as_json=as_json), console)
