"""Commands for results of several machines and people. Handlers import what they need, so that `--help` is fast."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.cli.commands import DATA_HELP, PLUGINS_HELP, absolute, terminal
from common.text import counted

RUNS_HELP = "names or folders of runs, such as results/NAME"


def add_sharing_commands(commands: Any) -> None:
    """Add the commands of this module to the subparsers of the command line."""
    merge = commands.add_parser("merge", help="join runs that are parts of one experiment into one run")
    merge.add_argument("run", type=Path, nargs="+", help=RUNS_HELP)
    merge.add_argument("--out", required=True, metavar="NAME", help="write the new run results/NAME and reports/NAME")
    merge.add_argument("--data", help=DATA_HELP)
    merge.add_argument("--plugins", type=absolute, help=PLUGINS_HELP)
    merge.set_defaults(handler=_merge)

    publish = commands.add_parser("publish", help="write a static site with leaderboards of runs")
    publish.add_argument("run", type=Path, nargs="+", help=RUNS_HELP)
    publish.add_argument("--site", type=Path, required=True, metavar="FOLDER", help="new folder, or that of a site")
    publish.add_argument("--no-poses", dest="poses", action="store_false", help="leave the poses out")
    publish.add_argument("--data", help=DATA_HELP)
    publish.add_argument("--plugins", type=absolute, help=PLUGINS_HELP)
    publish.set_defaults(handler=_publish)


def _merge(flags: argparse.Namespace) -> None:
    from bench.planning.catalog import Catalog
    from bench.report import command, merge
    from bench.storage import environment, run_folder

    catalog = Catalog.of(flags.data, flags.plugins)
    folder = run_folder.resolve_folder(flags.out, command.RESULTS)
    run_folder.check_report_folder(command.REPORTS / folder.resolve().name)
    environment.require_clean_checkout(folder)
    missing = merge.merge([command.folder_of(run) for run in flags.run], folder, catalog)
    console = terminal()
    for line in missing:
        console.print(f"incomplete: {line}", highlight=False, soft_wrap=True)
    command.write(command.ReportRequest([folder], command.REPORTS, catalog), console)


def _publish(flags: argparse.Namespace) -> None:
    from bench.planning.catalog import Catalog
    from bench.report import command, site

    folders = [command.folder_of(run) for run in flags.run]
    files = site.publish(folders, flags.site, Catalog.of(flags.data, flags.plugins), flags.poses)
    size = sum(file.stat().st_size for file in files if file.name != "poses.js") / 1e6
    print(f"{files[0]}: {counted(len(folders), 'run')}, {size:.1f} MB without poses")
