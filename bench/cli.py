"""The command line. Imports what a command needs when it is called, so that `--help` is instant."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from bench.store import Record

RESULTS, REPORTS = Path("results"), Path("reports")


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for bad input, 130 after Ctrl-C."""
    arguments = sys.argv[1:] if argv is None else argv
    parser, commands = _parser(train=arguments[:1] == ["train"])
    flags = parser.parse_args(
        arguments if arguments and arguments[0] in (*commands, "-h", "--help") else ["run", *arguments]
    )
    flags.command = shlex.join(["bench.py", *arguments])
    try:
        return int(flags.do(flags) or 0)
    except InputError as error:
        print(f"bench.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; what is finished is recorded, and the same command continues", file=sys.stderr)
        return 130


def _parser(train: bool) -> tuple[argparse.ArgumentParser, list[str]]:
    parser = argparse.ArgumentParser(
        prog="bench.py",
        description="Registration methods for 3D point clouds, side by side. Without a command: run.",
        epilog="the main job: bench.py --methods all",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="run methods on problems; write CSVs, plots and a report (the default)")
    _run_flags(run)
    listing = commands.add_parser("list", help="methods, data sets, conditions and presets")
    listing.add_argument("--plugins", type=_folder, help="folder with methods and data sets of your own")
    listing.set_defaults(do=_list)
    report = commands.add_parser("report", help="write CSVs and report of a run again, from its stored poses")
    report.add_argument("run", type=Path, help="name or folder of a run, such as results/NAME")
    report.set_defaults(do=_report)
    problems = commands.add_parser("problems", help="tell the SHA-256 of problem sets, and write them to a file")
    _problem_flags(problems)
    problems.add_argument("--export", type=Path, metavar="FILE", help="HDF5 file to write, which a run reads back")
    problems.set_defaults(do=_problems)
    data = commands.add_parser("data", help="download and prepare a data set, or take it from where it is on disk")
    data.add_argument("name", metavar="NAME", help="a data set (bench.py list)")
    data.add_argument("--from", dest="source", type=Path, metavar="PATH", help="archive or unpacked folder on disk")
    data.add_argument("--data", help="folder that holds one folder a data set; default $BENCH_DATA, else ./data")
    data.add_argument("--plugins", type=_folder, help="folder with methods and data sets of your own")
    data.set_defaults(do=_data)
    training = commands.add_parser("train", help="train a learned method")
    if train:  # its flags are its own, and importing them takes a while
        _train_flags(training)
    return parser, list(commands.choices)


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
    add("--plugins", type=_folder, help="folder with methods and data sets of your own")
    add("--skip-bad", action="store_true", help="leave out files that do not read, instead of stopping")


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
    add("--timeout", type=float, metavar="S", help="seconds a method may take for a pair")
    add("--memory-limit", type=float, metavar="GB", help="memory a method may use for a pair")
    add("--fresh", action="store_true", help="start over instead of continuing")
    run.set_defaults(do=_run)


def _folder(text: str) -> Path:
    return Path(text).resolve()


def _train_flags(train: argparse.ArgumentParser) -> None:
    from methods import training

    training.add_arguments(train)
    train.set_defaults(do=lambda flags: training.run(flags))


def _run(flags: argparse.Namespace) -> None:
    from bench import config, runner
    from bench.place import Place
    from datasets.registry import data_root

    made = config.from_flags(flags)
    if flags.jobs < 1:
        raise InputError("--jobs: must be at least 1")
    if (flags.backend == "dask") != bool(flags.scheduler):
        raise InputError("--backend dask and --scheduler tcp://HOST:PORT go together; give both")
    data_sets = re.sub(r"[^\w.]+", "-", "-".join(made.datasets)).strip("-")
    name = flags.out or f"{flags.preset}-{data_sets}-{made.hash[:8]}"
    folder = RESULTS / name
    if flags.fresh and folder.exists():
        shutil.rmtree(folder)
    console = _console()
    place = Place(
        folder, str(data_root(flags.data).resolve()), flags.jobs, flags.plugins, console, flags.command, flags.scheduler
    )
    write_all(runner.run(made, place), folder, console)


def _problems(flags: argparse.Namespace) -> None:
    from bench import config, problem_file
    from bench.plan import make_cells
    from datasets.registry import data_root

    root = str(data_root(flags.data).resolve())
    cells = make_cells(config.of_problems(flags), root, flags.plugins)
    for cell in cells:
        if cell.skip:
            print(f"{cell.name} is skipped: {cell.skip}", file=sys.stderr)
    where = [c for c in cells if not c.skip], root, flags.plugins
    found = problem_file.export(flags.export, *where) if flags.export else problem_file.hashes(*where)
    for name, sha256 in found.items():
        print(f"{sha256}  {name}")


def _data(flags: argparse.Namespace) -> None:
    from datasets.download import get
    from datasets.registry import data_root, open_data

    root = data_root(flags.data)
    wanted = open_data(flags.name, root, flags.plugins)
    print(f"{flags.name}: licence: {wanted.licence}")
    if wanted.archives:
        get(wanted.name, wanted.archives, root, flags.source, print)
    elif flags.source:
        raise InputError(f"--from: {wanted.name} has no archive to take; {wanted.where}")
    print(f"{flags.name}: {open_data(flags.name, root, flags.plugins).prepare()}, ready")


def _console() -> Console:
    """The terminal; a log gets lines that hold the summary's 100 columns."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, markup=False)  # names hold brackets


def _report(flags: argparse.Namespace) -> None:
    from bench.store import Record

    folder = flags.run if flags.run.is_dir() else RESULTS / flags.run
    if not (folder / "record.sqlite").is_file():
        raise InputError(f"{folder}: no record.sqlite in it; give the name or folder of a run")
    write_all(Record(folder / "record.sqlite"), folder, _console())


def write_all(record: Record, folder: Path, console: Console) -> None:
    """Everything a person reads of a run: CSVs beside the record, plots and report, the summary on the terminal."""
    from bench import export
    from bench.report import terminal_summary, write_report
    from bench.runner import write_run_json

    run = write_run_json(record, folder)
    outcomes = record.outcomes()
    frames = export.tables(record.problems(), outcomes, run)
    export.write_csvs(frames, folder)
    reports = REPORTS / folder.resolve().name
    write_report(folder, reports, run, frames, outcomes)
    console.print(terminal_summary(frames["summary"]))
    for what, where in (("CSVs", folder), ("plots", reports), ("report", reports / "report.html")):
        console.print(f"{what:8}{where}", highlight=False, soft_wrap=True)


def _list(flags: argparse.Namespace) -> None:
    from bench.config import load_preset, preset_names
    from datasets.conditions import CONDITIONS
    from datasets.registry import available as datasets
    from methods.registry import available as methods

    sections = {
        "methods": {n: f"{o.cls.kind:8} {o.unavailable() or o.summary}" for n, o in methods(flags.plugins).items()},
        "data sets": {n: _first_line(c) for n, c in datasets(flags.plugins).items()},
        "conditions": {n: _first_line(c) for n, c in CONDITIONS.items()},
        "presets": {n: load_preset(n)["about"] for n in preset_names()},
    }
    for title, rows in sections.items():
        print(title)
        for name, text in rows.items():
            print(f"  {name:20} {text}")


def _first_line(thing: type) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]
