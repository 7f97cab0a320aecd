"""A run: draw problems, ask every method, time them alone; every outcome is in the record as soon as it is there."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.execution import pool_worker
from bench.execution.context import RunContext
from bench.execution.executor import WorkerLost, notify_workers, run_batches
from bench.execution.progress import ProgressBar
from bench.execution.timing import TimingPhase
from bench.isolation import interrupt
from bench.isolation.process import Limits, MethodProcess, MethodSetup
from bench.planning.config import ORACLE, RECALL_THRESHOLD, RunConfig, differences
from bench.planning.tasks import (
    ProblemGroup,
    Task,
    batch_tasks,
    make_groups,
    make_tasks,
    method_setup,
    repeats_and_batch,
)
from bench.storage.database import OutcomeBuffer, ResultsDatabase
from bench.storage.environment import environment
from bench.storage.outcome import Outcome
from common.errors import InputError
from datasets import registry as data_sets
from datasets.problems import problem_set_sha256
from methods.core import registry

PROBLEMS_PER_COMMIT = 100
CHANGED = "changed since; give --fresh to ask again, or another --out to keep what there is"
MAX_WORKER_LOSSES = 3
"""Workers that may die in a row without any outcome before a run gives up."""


def run(config: RunConfig, place: RunContext) -> ResultsDatabase:
    """Do what is left of a run and return its record.

    Raises:
        InputError: the folder holds the record of another configuration, or data or weights are broken.
    """
    cells = make_groups(config, place.data, place.plugins)
    record = open_record(config, place)
    notes = collect_notes(config, cells, place.plugins)
    for note in notes:
        place.console.print(note, highlight=False, soft_wrap=True)
    hashes = record_problems(record, cells, place)
    settings = {method_setup(config, m, c, place.plugins): m for c in cells if not c.skip for m in c.methods}
    ready = preflight(list(settings), config.call_limits, place.console)
    _refuse_other_weights(record, ready, place)
    record.put("run", describe(config, place, hashes, ready) | {"notes": _timing_notes(config, place) + notes})
    usable = {s for s, reply in ready.items() if reply["status"] == "ok"}
    record_skipped(record, config, cells, ready, place.plugins)
    live = [c for c in cells if not c.skip]
    record_oracle(record, config, live)
    accuracy(record, config, live, usable, place)
    TimingPhase(record, config, usable, place).run()
    record.put("finished", time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    return record


def open_record(config: RunConfig, place: RunContext) -> ResultsDatabase:
    """The record of this configuration in the run's folder, new or to be continued."""
    record = ResultsDatabase(place.folder / "record.sqlite")
    known = record.get("hash")
    if known not in (None, config.hash):
        raise InputError(
            f"{place.folder}: holds a run of another configuration{_describe_differences(record, config)}; "
            "give --fresh to replace it, or another --out"
        )
    record.put("hash", config.hash)
    _refuse_other_code(record, config, place)
    if known:
        done = len(record.done("accuracy")) + len(record.done("timing"))
        place.console.print(f"continuing: {done} outcomes are recorded already", highlight=False)
    return record


def _refuse_other_code(record: ResultsDatabase, config: RunConfig, place: RunContext) -> None:
    """Outcomes of a method as it was must not stand beside those of the method as it is."""
    code = {m: registry.source_hashes(m, place.plugins) for m in config.every_method}
    known = record.get("code") or {}
    asked = record.answered() & known.keys() & code.keys()
    changed = {file for m in asked for file, _ in code[m].items() ^ known[m].items()}
    if changed:
        raise InputError(f"{place.folder}: {', '.join(sorted(changed))} {CHANGED}")
    record.put("code", code)


def _refuse_other_weights(record: ResultsDatabase, ready: dict[MethodSetup, dict[str, Any]], place: RunContext) -> None:
    """The same of the files that methods load, whose `sha256` they note when they are set up."""
    known, answered = (record.get("run") or {}).get("setup", {}), record.answered()
    mine = _setups({s: reply for s, reply in ready.items() if s.method in answered})
    changed = [name for name in mine if name in known and _weights(mine[name]) != _weights(known[name])]
    if changed:
        raise InputError(f"{place.folder}: the weights of {', '.join(changed)} {CHANGED}")


def _weights(notes: dict[str, Any]) -> dict[str, Any]:
    """Of what a method, or the parts of a chain, noted: the digests of files."""
    return {name: fact for name, fact in notes.items() if name.split()[-1] == "sha256"}


def _setups(ready: dict[MethodSetup, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What methods noted when they were set up."""
    return {f"{s.method} on {s.domain}": r["notes"] for s, r in ready.items() if r.get("notes")}


def _describe_differences(record: ResultsDatabase, config: RunConfig) -> str:
    """By what the configuration differs from the recorded one; nothing if the run was stopped before it was recorded."""
    there, here = record.get("run"), json.loads(json.dumps(dataclasses.asdict(config)))
    told = differences(there["config"], here) if there else []
    return f" (there → here: {'; '.join(told)})" if told else ""


def collect_notes(config: RunConfig, cells: list[ProblemGroup], plugins: Path | None) -> list[str]:
    """What is not as asked: broken plug-ins, files left out, cells that can't be had, fewer points or problems."""
    notes = list((data_sets.faults(plugins) | registry.faults(plugins)).values())
    notes += dict.fromkeys(remark for c in cells for remark in c.remarks)
    notes += [f"{c.name} is skipped: {c.skip}" for c in cells if c.skip]
    for cell in cells:
        if cell.points != cell.asked and not cell.skip:
            why = "its points are fixed and split into disjoint halves"
            notes.append(f"{cell.dataset}/{cell.condition} has N = {cell.points} instead of {cell.asked}: {why}")
    fewer = [f"{m} {config.limit(m)}" for m in config.every_method if config.limit(m) < config.problems]
    if fewer:
        notes.append(f"slow methods get fewer than {config.problems} problems of each condition: {', '.join(fewer)}")
    return notes


def record_problems(record: ResultsDatabase, cells: list[ProblemGroup], place: RunContext) -> dict[str, str]:
    """Record the truth of every problem that is not yet there; returns the SHA-256 of each cell's problem set."""
    known = record.known_problems()
    live = [c for c in cells if not c.skip]
    hashes: dict[str, str] = {}
    with ProgressBar(place.console, "problems", sum(k.id not in known for c in live for k in c.keys)) as meter:
        for cell in live:
            new = [k for k in cell.keys if k.id not in known]
            for start in range(0, len(new), PROBLEMS_PER_COMMIT):
                some = [
                    pool_worker.generate_problem(k, place.data, place.plugins)
                    for k in new[start : start + PROBLEMS_PER_COMMIT]
                ]
                record.add_problems(some)
                known |= {p.key.id: p.sha256() for p in some}
                meter.step(len(some), cell.name)
            hashes[cell.name] = problem_set_sha256(known[k.id] for k in cell.keys)
    return hashes


def preflight(settings: list[MethodSetup], limits: Limits, console: Console) -> dict[MethodSetup, dict[str, Any]]:
    """Set every method up once, away from this process, and say what it loaded or why it can't be used.

    Raises:
        InputError: a method was given bad input, such as weights of another architecture.
    """
    ready: dict[MethodSetup, dict[str, Any]] = {}
    said: set[tuple[str, str]] = set()
    child = MethodProcess(settings[0], limits) if settings else None
    with ProgressBar(console, "setting up", len(settings)) as meter:
        for one in settings:
            assert child is not None
            ready[one] = child.set_up(one)
            _print_setup(one, ready[one], said, console)
            meter.step(1, one.method)
    if child is not None:
        child.close()
    return ready


def _print_setup(one: MethodSetup, reply: dict[str, Any], said: set[tuple[str, str]], console: Console) -> None:
    if reply["status"] == "input":
        raise InputError(reply["message"])
    facts = ", ".join(f"{k} {v}" for k, v in reply.get("notes", {}).items())
    text = f"{one.method}: {facts}" if facts else ""
    if reply["status"] != "ok":
        text = f"{one.method} can't be used on {one.domain}: {reply['message']}"
    if text and (one.method, text) not in said:
        said.add((one.method, text))
        console.print(text, highlight=False, soft_wrap=True)


def describe(
    config: RunConfig, place: RunContext, hashes: dict[str, str], ready: dict[MethodSetup, dict[str, Any]]
) -> dict[str, Any]:
    """What `run.json` says of the run."""
    offers = {m: registry.build(m, place.plugins) for m in config.every_method}
    first = registry.available(place.plugins)
    return {
        "command": place.command,
        "config": dataclasses.asdict(config) | {"threshold": RECALL_THRESHOLD, "angle_bins": list(config.angles)},
        "hash": config.hash,
        "problem_sets": hashes,
        "methods": {
            name: {
                "kind": registry.kind_of(method),
                "random": registry.is_random(method),
                "variant": registry.parameters_of(method),
                "doc": " + ".join(first[p.split("[")[0]].summary for p in name.split("+") if p.split("[")[0] in first),
            }
            for name, method in offers.items()
        },
        "setup": _setups(ready),
        "unavailable": {s.method: r["message"] for s, r in ready.items() if r["status"] != "ok"},
        "environment": environment() | {"threads": config.threads, "device": config.device, "jobs": place.jobs},
    }


def record_skipped(
    record: ResultsDatabase,
    config: RunConfig,
    cells: list[ProblemGroup],
    ready: dict[MethodSetup, dict[str, Any]],
    plugins: Path | None,
) -> None:
    """A problem that is not asked is a row with its reason, too.

    It is `skipped` where the data or a package is missing; a method whose own setup breaks has failed every problem.
    """
    for method in config.every_method:
        kind = registry.kind_of(registry.build(method, plugins))
        for cell in (c for c in cells if method in c.methods):
            reply = ready.get(method_setup(config, method, cell, plugins), {"status": "unavailable"})
            if not cell.skip and reply["status"] == "ok":
                continue
            status = "skipped" if cell.skip or reply["status"] == "unavailable" else reply["status"]
            reason = cell.skip or reply["message"]
            keys = cell.keys[: config.limit(method)]
            record.add_outcomes(
                (Outcome(method, k.id, status, seed=k.seed, message=reason) for k in keys), kind, cell.columns
            )


def record_oracle(record: ResultsDatabase, config: RunConfig, cells: list[ProblemGroup]) -> None:
    """The truth as an answer: a control of the scoring, which must find no error in it."""
    truth = record.truths() if config.oracle else {}
    for cell in cells:
        rows = [Outcome(ORACLE, k.id, "ok", seed=config.seed, pose=truth[k.id]) for k in cell.keys if k.id in truth]
        record.add_outcomes(rows, "control", cell.columns)


def accuracy(
    record: ResultsDatabase, config: RunConfig, cells: list[ProblemGroup], usable: set[MethodSetup], place: RunContext
) -> None:
    """Every method on every problem, in parallel. Outcomes count as done once they are in the record."""

    def left() -> list[Task]:
        pieces = make_tasks(config, cells, record.done("accuracy"), place.data, place.plugins)
        return [p for p in pieces if p.setting in usable]

    kinds = {m: registry.kind_of(registry.build(m, place.plugins)) for m in config.every_method}
    pieces, fruitless = left(), 0
    count = sum(len(p.keys) for p in pieces)
    with interrupt.on_interrupt(notify_workers), ProgressBar(place.console, "registering", count) as meter:
        while pieces and not interrupt.requested():
            before = meter.count
            try:
                with OutcomeBuffer(record, meter.step) as ledger:
                    for piece, outcomes in run_batches(batch_tasks(pieces, place.jobs), place):
                        method, cell = piece.setting.method, piece.cell
                        ledger.add(outcomes, kinds[method], cell.columns, f"{method} on {cell.name}")
            except WorkerLost as loss:
                if interrupt.requested():  # it was interrupted before it could listen
                    break
                fruitless = fruitless + 1 if meter.count == before else 0
                if fruitless >= MAX_WORKER_LOSSES:
                    raise InputError(f"worker processes keep dying ({loss}); try --jobs 1 or fewer --points") from loss
                place.console.print(f"a worker process died ({loss}); its problems are solved again", highlight=False)
            pieces = left()


def _timing_notes(config: RunConfig, place: RunContext) -> list[str]:
    """What to know of the times of the accuracy problems."""
    notes = []
    if place.jobs > 1 or place.scheduler:
        alone = "the timing table has those taken alone" if config.timing_rounds else "nothing was timed alone"
        notes = [f"times beside accuracy were taken while several processes worked; {alone}"]
    if batched := [m for m in config.every_method if repeats_and_batch(config, m, place.plugins)[1] > 1]:
        share = f"times beside accuracy are a batch's over its pairs (--batch {config.batch}; column batch): "
        notes.append(share + ", ".join(batched))
    return notes
