"""A run: generate problems, run every method, time them alone; every outcome is stored as soon as it exists."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bench.execution.context import RunContext
from bench.execution.executor import WorkerLost, check_workers, notify_workers, run_batches, worker_pool
from bench.execution.progress import ProgressBar
from bench.execution.timing import TimingPhase
from bench.isolation import interrupt
from bench.isolation.process import MethodProcess, own_variables, prepare
from bench.isolation.protocol import Limits, MethodSetup, Reply
from bench.planning.config import ORACLE, RECALL_THRESHOLD, RunConfig, differences
from bench.planning.tasks import (
    WHOLE,
    ProblemGroup,
    Task,
    batch_tasks,
    make_groups,
    make_tasks,
    method_setup,
    repeats_and_batch,
)
from bench.storage import run_folder
from bench.storage.database import OutcomeBuffer, ResultsDatabase
from bench.storage.environment import environment, machine, machine_facts
from bench.storage.outcome import Outcome, Phase, Status
from bench.storage.run_json import weights_of
from common.errors import InputError
from common.text import counted, join_names
from datasets.problems import problem_set_sha256

if TYPE_CHECKING:
    from rich.console import Console

PROBLEMS_PER_COMMIT = 100
CHANGED = "changed since; give --fresh to run again, or another --out to keep the existing outcomes"
CODE_FORM = 2
"""Form of the stored source hashes; those of another form, by versions with other files, cannot be compared."""
MAX_REASONS = 5
"""Maximum number of unavailable methods whose reasons a message lists."""
MAX_WORKER_LOSSES = 3
"""Workers that may die in a row without any outcome before a run gives up."""


def run(config: RunConfig, context: RunContext) -> ResultsDatabase:
    """Do what remains of a run and return its database.

    Raises:
        InputError: the folder holds a run of another configuration, data or weights are broken, or no method can run.
    """
    groups = make_groups(config)
    # Nothing is written, or deleted with --fresh, before it is known that a method can run.
    continued = not context.fresh and (context.folder / run_folder.DATABASE_NAME).exists()
    database = open_database(config, context) if continued else None
    notes = collect_notes(config, groups, context)
    for note in notes:
        context.console.print(note, highlight=False, soft_wrap=True)
    live = [group for group in groups if not group.skip]
    setups = list(dict.fromkeys(method_setup(config, method, group) for group in live for method in group.methods))
    prepare(setups)
    _check_problems(database.known_problems() if database else {}, live, context)
    replies = preflight(setups, config.call_limits, context.console)
    _refuse_without_method(database, config, replies)
    database = database or open_database(config, context)
    _refuse_other_weights(database, replies, context)
    facts = facts_of_run(config, context, groups, replies)
    known = (database.get("run") or {}).get("machines", {})
    facts["machines"] = known | {machine(): machine_facts()} | check_workers(replies, config.call_limits, context)
    database.put("run", facts | {"notes": _timing_notes(config, context) + notes})
    usable = {setup for setup, reply in replies.items() if reply.status == Status.OK}
    record_skipped(database, config, groups, replies)
    try:
        accuracy(database, config, live, usable, context)
        record_other_problems(database, live, context)
    finally:
        record_problem_sets(database, live)
    record_oracle(database, config, live)
    if context.shard.number == 1:
        TimingPhase(database, config, usable, context).run()
    database.put("finished", time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    return database


def open_database(config: RunConfig, context: RunContext) -> ResultsDatabase:
    """Open the database of this configuration in the run's folder, new or to be continued."""
    if context.fresh and (kept := run_folder.delete_run_files(context.folder)):
        line = f"{context.folder}: kept files that no run writes: {', '.join(kept)}"
        context.console.print(line, highlight=False, soft_wrap=True)
    database = ResultsDatabase(context.folder / run_folder.DATABASE_NAME)
    known = database.get("hash")
    if known not in (None, config.hash):
        raise InputError(
            f"{context.folder}: holds a run of another configuration{_describe_differences(database, config)}; "
            "give --fresh to replace it, or another --out"
        )
    _refuse_other_shard(database, context)
    database.put("hash", config.hash)
    _refuse_other_code(database, config, context)
    if known:
        done = len(database.finished_keys(Phase.ACCURACY)) + len(database.finished_keys(Phase.TIMING))
        context.console.print(
            f"continuing: {counted(done, 'outcome')} {'exists' if done == 1 else 'exist'} already", highlight=False
        )
    return database


def _refuse_other_shard(database: ResultsDatabase, context: RunContext) -> None:
    """Refuse to continue one shard as another; the run without shards may continue any of them."""
    stored = (database.get("run") or {}).get("shard")
    if stored and context.shard != WHOLE and stored != str(context.shard):
        raise InputError(f"{context.folder}: holds shard {stored}, not {context.shard}; give another --out")


def _refuse_other_code(database: ResultsDatabase, config: RunConfig, context: RunContext) -> None:
    """Refuse to mix outcomes of a method with those of a changed version of it."""
    hashes = {method.text: method.source_hashes() for method in config.every_method}
    stored = database.get("code") or {}
    solved = database.methods_with_outcomes()
    if stored and stored.get("form") != CODE_FORM and solved:
        line = "this run was begun by an earlier version; whether its methods changed since cannot be checked"
        context.console.print(line, highlight=False, soft_wrap=True)
    known = stored.get("methods", {}) if stored.get("form") == CODE_FORM else {}
    both = solved & known.keys() & hashes.keys()
    changed = {file for method in both for file, _ in hashes[method].items() ^ known[method].items()}
    if changed:
        raise InputError(f"{context.folder}: {', '.join(sorted(changed))} {CHANGED}")
    database.put("code", {"form": CODE_FORM, "methods": hashes})


def _refuse_other_weights(database: ResultsDatabase, replies: dict[MethodSetup, Reply], context: RunContext) -> None:
    """Refuse changed weights likewise, by the `sha256` that methods note when they are set up."""
    known, solved = (database.get("run") or {}).get("setup", {}), database.methods_with_outcomes()
    notes = _setup_notes({setup: reply for setup, reply in replies.items() if setup.method.text in solved})
    changed = [name for name in notes if name in known and weights_of(notes[name]) != weights_of(known[name])]
    if changed:
        raise InputError(f"{context.folder}: the weights of {', '.join(changed)} {CHANGED}")


def _refuse_without_method(
    database: ResultsDatabase | None, config: RunConfig, replies: dict[MethodSetup, Reply]
) -> None:
    """Refuse a run in which every method is unavailable, unless it evaluates the control `oracle` or has outcomes already."""
    if config.oracle or not replies or any(reply.status != Status.UNAVAILABLE for reply in replies.values()):
        return
    if database is None or not database.methods_with_outcomes():
        reasons = dict.fromkeys(f"{setup.method} ({reply.message})" for setup, reply in replies.items())
        raise InputError(f"--methods: none is available: {join_names(list(reasons), MAX_REASONS, '; ')}")


def _setup_notes(replies: dict[MethodSetup, Reply]) -> dict[str, dict[str, Any]]:
    """Return what methods noted when they were set up, by `METHOD on DOMAIN`."""
    return {f"{setup.method} on {setup.domain}": reply.notes for setup, reply in replies.items() if reply.notes}


def _describe_differences(database: ResultsDatabase, config: RunConfig) -> str:
    """Name the settings that differ from those of the database; empty if the run stopped before it stored them."""
    stored = database.get("run")
    lines = differences(stored["config"], json.loads(json.dumps(config.to_json()))) if stored else []
    return f" (there → here: {'; '.join(lines)})" if lines else ""


def collect_notes(config: RunConfig, groups: list[ProblemGroup], context: RunContext) -> list[str]:
    """Return notes on what differs from the request: broken plug-ins, files left out, skipped groups, fewer points."""
    notes = [*context.catalog.faults, *dict.fromkeys(remark for group in groups for remark in group.remarks)]
    notes += [f"{group.name} is skipped: {group.skip}" for group in groups if group.skip]
    notes += [
        f"{name}: code of {file} generates its problems in the process that scores: trust it as the benchmark itself"
        for name, file in dict.fromkeys((group.dataset.text, group.dataset.trusted_file) for group in groups)
        if file
    ]
    for group in groups:
        if group.points != group.requested and not group.skip:
            why = (
                "its objects have a fixed number of points, and the condition divides them or needs more than N of them"
            )
            notes.append(
                f"{group.dataset}/{group.condition} has N = {group.points} instead of {group.requested}: {why}"
            )
    fewer = [f"{m} {config.limit(m)}" for m in config.every_method if config.limit(m) < config.problems]
    if fewer:
        notes.append(f"slow methods get fewer than {config.problems} problems of each condition: {', '.join(fewer)}")
    return notes


def _check_problems(known: Mapping[str, bytes], groups: list[ProblemGroup], context: RunContext) -> None:
    """Generate the first stored problem of each group, or the first of all, so that broken data are found before methods start.

    Args:
        known: digest of each stored problem by id.
        groups: of problems.
        context: of the run.

    Raises:
        InputError: the stored problem is not the one that is generated now, or the data are broken.
    """
    for group in groups:
        for key in [*(key for key in group.keys if key.id in known), *group.keys][:1]:
            digest = group.problem(key).sha256()
            if known.get(key.id, digest) != digest:
                raise InputError(
                    f"{context.folder}: problem {key.id} is generated differently now, by this version or from changed "
                    "data; bench.py report still reads the run; give --fresh to start over, or another --out"
                )


def record_other_problems(database: ResultsDatabase, groups: list[ProblemGroup], context: RunContext) -> None:
    """Store the problems that no method was run on: each shard, and a run without a usable method, has all of them."""
    known = database.known_problems()
    new = {group.name: [key for key in group.keys if key.id not in known] for group in groups}
    with ProgressBar(context.console, "other problems", sum(map(len, new.values()))) as bar:
        for group in groups:
            for start in range(0, len(new[group.name]), PROBLEMS_PER_COMMIT):
                problems = [group.problem(key) for key in new[group.name][start : start + PROBLEMS_PER_COMMIT]]
                database.add_problems(problems)
                bar.advance(len(problems), group.name)


def record_problem_sets(database: ResultsDatabase, groups: list[ProblemGroup]) -> None:
    """Store the SHA-256 of the problem set of each group whose problems are all stored."""
    known = database.known_problems()
    whole = [group for group in groups if all(key.id in known for key in group.keys)]
    sets = {group.name: problem_set_sha256(known[key.id] for key in group.keys) for group in whole}
    database.put("run", database.get("run") | {"problem_sets": sets})


def preflight(setups: list[MethodSetup], limits: Limits, console: Console) -> dict[MethodSetup, Reply]:
    """Set every method up once, in a separate process, and print what it loaded or why it is not available.

    Built-in methods with the same environment variables share a process; each plug-in has its own.

    Raises:
        InputError: a method was given bad input, such as weights of another architecture.
    """
    replies: dict[MethodSetup, Reply] = {}
    printed: set[tuple[str, str]] = set()
    shared: dict[frozenset[tuple[str, str]], MethodProcess] = {}
    with ProgressBar(console, "setting up", len(setups)) as bar, contextlib.ExitStack() as at_end:
        for setup in setups:
            process = MethodProcess(setup, limits)
            if not setup.method.is_external:
                process = shared.setdefault(frozenset(own_variables(setup).items()), process)
            at_end.callback(process.close)
            replies[setup] = process.set_up(setup)
            if setup.method.is_external:
                process.close()
            _print_setup(setup, replies[setup], printed, console)
            bar.advance(1, setup.method.text)
    return replies


def _print_setup(setup: MethodSetup, reply: Reply, printed: set[tuple[str, str]], console: Console) -> None:
    if reply.status == Status.INPUT:
        raise InputError(reply.message)
    facts = ", ".join(f"{name} {fact}" for name, fact in reply.notes.items())
    text = f"{setup.method}: {facts}" if facts else ""
    if reply.status != Status.OK:
        text = f"{setup.method} is not available on {setup.domain}: {reply.message}"
    if text and (setup.method.text, text) not in printed:
        printed.add((setup.method.text, text))
        console.print(text, highlight=False, soft_wrap=True)


def facts_of_run(
    config: RunConfig,
    context: RunContext,
    groups: list[ProblemGroup],
    replies: dict[MethodSetup, Reply],
) -> dict[str, Any]:
    """Return the facts of the run for `run.json`."""
    data_sets = dict.fromkeys([*config.datasets, *(name for grid in config.more for name in grid.datasets)])
    contents = {dataset.text: dataset.open().contents("test") for dataset in data_sets}
    machine: dict[str, Any] = {"threads": config.threads, "device": config.device, "jobs": context.jobs}
    machine |= {"gpu": dict(config.gpu)} if config.gpu else {}
    return {
        "command": context.command,
        "config": config.to_json() | {"threshold": RECALL_THRESHOLD, "angle_bins": list(config.angles)},
        "hash": config.hash,
        "problem_sets": {},
        "kinds": {group.name: group.kind.value for group in groups},
        "data": {name: content for name, content in contents.items() if content},
        "methods": {
            method.text: {
                "kind": method.kind,
                "random": method.random,
                "variant": method.parameters,
                "doc": method.summary,
            }
            for method in config.every_method
        },
        "setup": _setup_notes(replies),
        "unavailable": {s.method.text: r.message for s, r in replies.items() if r.status != Status.OK},
        "environment": environment() | machine,
    } | ({"shard": str(context.shard)} if context.shard != WHOLE else {})


def record_skipped(
    database: ResultsDatabase, config: RunConfig, groups: list[ProblemGroup], replies: dict[MethodSetup, Reply]
) -> None:
    """Store an outcome with its reason for every problem that is not run.

    Its status is `skipped` where the data or a package is missing; a method whose own setup fails has failed every problem.
    """
    for method in config.every_method:
        for group in (g for g in groups if method in g.methods):
            reply = replies.get(method_setup(config, method, group), Reply(Status.UNAVAILABLE))
            if not group.skip and reply.status == Status.OK:
                continue
            status = Status.SKIPPED if group.skip or reply.status == Status.UNAVAILABLE else reply.status
            reason = group.skip or reply.message
            keys = group.keys[: config.limit(method)]
            outcomes = [Outcome(method.text, key.id, status, seed=key.seed, message=reason) for key in keys]
            database.add_outcomes(outcomes, method.kind, group.columns)


def record_oracle(database: ResultsDatabase, config: RunConfig, groups: list[ProblemGroup]) -> None:
    """Store the true poses as outcomes of a control: scoring must find no error in them."""
    truth = database.true_poses() if config.oracle else {}
    for group in groups:
        keys = [key for key in group.keys if key.id in truth]
        outcomes = [Outcome(ORACLE, key.id, Status.OK, seed=config.seed, pose=truth[key.id]) for key in keys]
        database.add_outcomes(outcomes, "control", group.columns)


def accuracy(
    database: ResultsDatabase,
    config: RunConfig,
    groups: list[ProblemGroup],
    usable: set[MethodSetup],
    context: RunContext,
) -> None:
    """Run every method on every problem, in parallel. An outcome is done once it is in the database, with its problem."""

    def remaining() -> list[Task]:
        done, stored = database.finished_keys(Phase.ACCURACY), database.known_problems()
        return [task for task in make_tasks(config, groups, done, stored, context.shard) if task.setup in usable]

    tasks, losses = remaining(), 0
    count = sum(len(task.keys) for task in tasks)
    with (
        interrupt.on_interrupt(notify_workers),
        ProgressBar(context.console, "registering", count) as bar,
        worker_pool(context) as pool,
    ):
        while tasks and not interrupt.requested():
            before = bar.count
            try:
                with OutcomeBuffer(database, bar.advance) as buffer:
                    for part in run_batches(batch_tasks(tasks, context.jobs), context, pool):
                        method, group = part.task.setup.method, part.task.group
                        what = f"{method} on {group.name}"
                        buffer.add(part.outcomes, method.kind, group.columns, what, part.problems)
            except WorkerLost as loss:
                if interrupt.requested():  # the worker was interrupted before its handler was installed
                    break
                losses = losses + 1 if bar.count == before else 0
                if losses >= MAX_WORKER_LOSSES:
                    raise InputError(f"worker processes keep dying ({loss}); try --jobs 1 or fewer --points") from loss
                line = f"a worker process died ({loss}); its problems are solved again"
                context.console.print(line, highlight=False)
            tasks = remaining()


def _timing_notes(config: RunConfig, context: RunContext) -> list[str]:
    """Return notes on how the times of the accuracy phase were taken."""
    notes = []
    if context.jobs > 1 or context.scheduler:
        alone = "the timing table has those taken alone" if config.timing_rounds else "nothing was timed alone"
        notes = [f"times beside accuracy were taken while several processes worked; {alone}"]
    if batched := [method.text for method in config.every_method if repeats_and_batch(config, method)[1] > 1]:
        share = f"times beside accuracy are a batch's over its pairs (--batch {config.batch}; column batch): "
        notes.append(share + ", ".join(batched))
    return notes
