"""Steps of a run without its processes: what is refused, generated, stored and printed, and in which order."""

import contextlib
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from bench.execution import run as module
from bench.execution.context import RunContext
from bench.execution.executor import WorkerLost
from bench.execution.pool_worker import Solved
from bench.isolation.protocol import Limits, MethodSetup, Reply
from bench.planning.catalog import Catalog
from bench.planning.config import ExtraGrid, RunConfig
from bench.planning.tasks import WHOLE, ProblemGroup, Shard, make_groups, make_tasks, method_setup
from bench.storage import run_folder
from bench.storage.database import ResultsDatabase
from bench.storage.outcome import Outcome, Phase, Status
from common.errors import InputError
from datasets.conditions import ConditionSpec
from datasets.problems import Problem, problem_set_sha256
from datasets.registry import DataRegistry
from tests.catalog import spec

PCA, ICP, RANDOM = spec("pca"), spec("icp"), spec("random_pose")


def configuration(**changes):
    fields = {
        "methods": (PCA, ICP),
        "oracle": False,
        "datasets": (DataRegistry.at().spec("shapes40"),),
        "conditions": tuple(map(ConditionSpec.parse, ("clean", "noisy"))),
        "points": (32,),
        "angles": (0.0, 90.0, 180.0),
        "sampler": "haar",
        "problems": 5,
        "seed": 4,
        "threads": 3,
        "device": "cpu",
        "timeout": 20.0,
        "memory_limit_gb": 4.0,
        "limits": {"icp": 0.4},
        "timing_points": (32,),
        "timing_rounds": 0,
        "timing_budget_s": 5.0,
    }
    return RunConfig(**(fields | changes))


@pytest.fixture
def context(tmp_path, monkeypatch):
    """A context whose console writes to a text, `context.console.file`; source files are not read."""
    monkeypatch.setattr(type(PCA), "source_hashes", lambda self: {f"{self}.py": "digest"})
    console = Console(file=io.StringIO(), width=70)
    return RunContext(tmp_path / "run", Catalog.of(), 1, console, "bench.py run")


def test_a_run_is_whole_and_continues_on_this_machine_unless_it_is_told_otherwise(context):
    assert (context.scheduler, context.shard, context.fresh) == ("", WHOLE, False)


def said(context):
    return context.console.file.getvalue()


def changed(context, **fields):
    return RunContext(**(vars(context) | fields))


@pytest.fixture
def database(tmp_path):
    results = ResultsDatabase(tmp_path / "other" / "record.sqlite")
    yield results
    results.close()


@pytest.fixture
def generated(monkeypatch):
    """Problems with two points each, whose coordinates follow from their index; the ids of those that were generated."""
    made = []

    def problem(group, key):
        made.append(key.id)
        cloud = np.full((2, 3), key.index + len(key.condition), np.float32)
        tags = dict.fromkeys(("object", "category", "symmetry"), "x") | dict.fromkeys(
            ("angle_deg", "translation", "overlap"), 1.0
        )
        T = np.eye(4)
        T[:3, 3] = key.index
        return Problem(key, cloud, cloud, T, np.eye(4), tags)

    monkeypatch.setattr(ProblemGroup, "problem", problem)
    return made


# What may not be continued


@pytest.mark.parametrize("stored", [None, "1/3", "2/3"])
@pytest.mark.parametrize("shard", [WHOLE, Shard(1, 3), Shard(2, 3)])
def test_a_shard_is_continued_as_itself_or_as_the_whole_run(database, context, stored, shard):
    database.put("run", {"shard": stored} if stored else None)
    here = changed(context, shard=shard)
    if stored and shard != WHOLE and stored != str(shard):
        with pytest.raises(InputError, match=f"holds shard {stored}, not {shard}; give another --out"):
            module._refuse_other_shard(database, here)
    else:
        module._refuse_other_shard(database, here)


@pytest.mark.parametrize("form", [None, 1, module.CODE_FORM])
@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize("change", ["none", "edit", "new file"])
def test_code_of_methods_with_outcomes_may_not_change(database, context, monkeypatch, form, solved, change):
    """Hashes of another form cannot be compared, which is printed if there are outcomes."""
    hashes = {"pca": {"a.py": "1", "b.py": "2"}, "icp": {"c.py": "3"}}
    monkeypatch.setattr(type(PCA), "source_hashes", lambda self: hashes[self.text])
    config = configuration()
    if form:
        known = {"pca": {"a.py": "1", "b.py": "2"}, "icp": {"c.py": "other"}, "gone": {"d.py": "4"}}
        database.put("code", {"form": form, "methods": known})
    if solved:
        database.add_outcomes(
            [Outcome("pca", "p", Status.OK), Outcome("gone", "p", Status.OK)], "global", ("d", "c", 3)
        )
    if change == "edit":
        hashes["pca"] = {"a.py": "changed", "b.py": "2"}
    elif change == "new file":
        hashes["pca"] = {"a.py": "1", "b.py": "2", "z.py": "5"}
    if form == module.CODE_FORM and solved and change != "none":
        name = {"edit": "a.py", "new file": "z.py"}[change]
        with pytest.raises(InputError, match=rf": {name} changed since; give --fresh"):
            module._refuse_other_code(database, config, context)
        assert database.get("code")["methods"]["icp"] == {"c.py": "other"}
    else:
        module._refuse_other_code(database, config, context)
        assert database.get("code") == {"form": module.CODE_FORM, "methods": hashes}
    assert ("begun by an earlier version" in said(context)) == (form == 1 and solved)


@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize("now", ["w", "v", None])
def test_weights_of_methods_with_outcomes_may_not_change(database, context, solved, now):
    database.put("run", {"setup": {"pca on d": {"sha256": "w", "note": 1}, "gone on d": {"sha256": "x"}}})
    if solved:
        database.add_outcomes([Outcome("pca", "p", Status.OK)], "global", ("d", "c", 3))
    notes = {"note": 2} | ({"sha256": now} if now else {})
    replies = {MethodSetup(PCA, "d"): Reply(notes=notes), MethodSetup(ICP, "d"): Reply(notes={"sha256": "new"})}
    if solved and now != "w":
        with pytest.raises(InputError, match=r"the weights of pca on d changed since"):
            module._refuse_other_weights(database, replies, context)
    else:
        module._refuse_other_weights(database, replies, context)


@pytest.mark.parametrize("oracle", [False, True])
@pytest.mark.parametrize("statuses", [(), ("unavailable",) * 7, ("unavailable", "error"), ("ok", "unavailable")])
@pytest.mark.parametrize("stored", ["no database", "nothing", "outcomes"])
def test_a_run_without_an_available_method_is_refused_unless_something_is_evaluated(database, oracle, statuses, stored):
    """Five reasons are listed."""
    setups = [MethodSetup(spec(f"icp[trim=0.{i + 1}]"), "d") for i in range(len(statuses))]
    replies = {
        s: Reply(Status(status), message=f"why {i}") for i, (s, status) in enumerate(zip(setups, statuses, strict=True))
    }
    if stored == "outcomes":
        database.add_outcomes([Outcome("pca", "p", Status.OK)], "global", ("d", "c", 3))
    given = None if stored == "no database" else database
    if not oracle and len(set(statuses)) == 1 and stored != "outcomes":
        listed = "; ".join(f"icp[trim=0.{i + 1}] (why {i})" for i in range(5))
        with pytest.raises(InputError) as caught:
            module._refuse_without_method(given, configuration(oracle=oracle), replies)
        assert str(caught.value) == f"--methods: none is available: {listed} and 2 more"
    else:
        module._refuse_without_method(given, configuration(oracle=oracle), replies)


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("known", ["nothing", "same", "other", "other without facts"])
def test_a_database_is_opened_for_its_own_configuration(context, known, count):
    config = configuration()
    if known != "nothing":
        with contextlib.closing(ResultsDatabase(context.folder / run_folder.DATABASE_NAME)) as before:
            then = config if known == "same" else configuration(seed=5)
            before.put("hash", then.hash)
            before.put("run", None if known == "other without facts" else {"config": then.to_json()})
            for phase in (Phase.ACCURACY, Phase.TIMING)[:count]:
                before.add_outcomes([Outcome("pca", "p", Status.OK, phase)], "global", ("d", "c", 3))
    if known.startswith("other"):
        difference = " (there → here: seed: 5 → 4)" if known == "other" else ""
        with pytest.raises(InputError) as caught:
            module.open_database(config, context)
        assert f"another configuration{difference}; give --fresh" in str(caught.value)
        return
    with contextlib.closing(module.open_database(config, context)) as opened:
        assert opened.get("hash") == config.hash and opened.get("code")["methods"].keys() == {"pca", "icp"}
        assert opened.path == context.folder / "record.sqlite"
    line = ("0 outcomes exist", "1 outcome exists", "2 outcomes exist")[count]
    assert said(context) == (f"continuing: {line} already\n" if known == "same" else "")


@pytest.mark.parametrize("others", [[], ["a.txt", "b.txt"]])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_fresh_database_replaces_the_one_before_and_other_files_are_named(context, others, fresh):
    config = configuration()
    module.open_database(config, context).close()
    for name in others:
        (context.folder / name).write_text("x")
    here = changed(context, fresh=fresh)
    with contextlib.closing(ResultsDatabase(context.folder / "record.sqlite")) as before:
        before.put("mark", 1)
    with contextlib.closing(module.open_database(config, here)) as opened:
        assert opened.get("mark") == (None if fresh else 1)
    kept = f"{context.folder}: kept files that no run writes: a.txt, b.txt\n"
    assert said(context) == (kept * bool(others) if fresh else "continuing: 0 outcomes exist already\n")


# Problems


@pytest.mark.parametrize("known", [None, 3])
@pytest.mark.parametrize("same", [True, False])
def test_one_problem_of_each_group_is_compared_with_the_stored_one(context, generated, known, same):
    groups = make_groups(configuration())
    keys = [group.keys[known or 0] for group in groups]
    digests = {} if known is None else {k.id: g.problem(k).sha256() for g, k in zip(groups, keys, strict=True)}
    generated.clear()
    if known is not None and not same:
        digests[keys[1].id] = bytes(32)
        with pytest.raises(InputError, match=f"problem {keys[1].id} is generated differently now"):
            module._check_problems(digests, groups, context)
    else:
        module._check_problems(digests, groups, context)
    assert generated == [key.id for key in keys]


def test_problems_of_no_method_are_stored_in_parts(context, database, generated, monkeypatch):
    groups, parts, bars = make_groups(configuration()), [], []
    stored = [groups[0].problem(groups[0].keys[i]) for i in (0, 3)]
    database.add_problems(stored)
    generated.clear()
    usual = database.add_problems
    monkeypatch.setattr(database, "add_problems", lambda some: parts.append([p.key.id for p in some]) or usual(some))
    monkeypatch.setattr(module, "PROBLEMS_PER_COMMIT", 2)
    advance = module.ProgressBar.advance
    monkeypatch.setattr(
        module.ProgressBar, "advance", lambda self, n, what: bars.append((n, what)) or advance(self, n, what)
    )
    module.record_other_problems(database, groups, context)
    ids = [[key.id for key in group.keys] for group in groups]
    first = [ids[0][i] for i in (1, 2, 4)]
    assert parts == [first[:2], first[2:], ids[1][:2], ids[1][2:4], ids[1][4:]]
    assert bars == [(2, groups[0].name), (1, groups[0].name), *((n, groups[1].name) for n in (2, 2, 1))]
    assert generated == first + ids[1] and set(database.known_problems()) == {*ids[0], *ids[1]}
    assert "other problems: 8 of 8" in said(context)


def test_sets_of_which_every_problem_is_stored_have_a_digest(database, generated):
    groups = make_groups(configuration())
    problems = [[group.problem(key) for key in group.keys] for group in groups]
    database.put("run", {"kept": 1, "problem_sets": {"old": "x"}})
    database.add_problems([*problems[0], *problems[1][:-1]])
    module.record_problem_sets(database, groups)
    sets = {groups[0].name: problem_set_sha256(p.sha256() for p in problems[0])}
    assert database.get("run") == {"kept": 1, "problem_sets": sets}


# Setups


class Process:
    """Method process whose setups are written down, and answered by `answers`."""

    events: list = []
    answers: dict = {}

    def __init__(self, setup, limits):
        self.first = setup.method.text
        assert limits == Limits(1, 2)

    def set_up(self, setup):
        self.events.append((self.first, setup.method.text))
        return self.answers.get((setup.method.text, setup.domain), Reply(notes={"features": "native"}))

    def close(self):
        self.events.append((self.first, "close"))


def test_setups_share_a_process_unless_they_are_plug_ins_or_have_other_variables(context, monkeypatch):
    external = {"pca", "fgr"}
    monkeypatch.setattr(type(PCA), "is_external", property(lambda self: self.text in external))
    monkeypatch.setattr(module, "own_variables", lambda setup: {"A": "2" if setup.method.text == "sc2_pcr" else "1"})
    monkeypatch.setattr(module, "MethodProcess", Process)
    monkeypatch.setattr(Process, "events", [])
    setups = [MethodSetup(spec(name), "d") for name in ("icp", "pca", "sc2_pcr", "teaser", "fgr")]
    replies = module.preflight(setups, Limits(1, 2), context.console)
    assert list(replies) == setups
    before = Process.events[:-5]
    assert before == [
        ("icp", "icp"),
        ("pca", "pca"),
        ("pca", "close"),
        ("sc2_pcr", "sc2_pcr"),
        ("icp", "teaser"),
        ("fgr", "fgr"),
        ("fgr", "close"),
    ]
    assert {name for name, what in Process.events[-5:] if what == "close"} == {"icp", "pca", "sc2_pcr", "fgr"}
    assert said(context).endswith("setting up: 5 of 5 in 0 s\n")


def test_what_a_setup_loaded_or_why_it_is_not_available_is_said_once(context, monkeypatch):
    monkeypatch.setattr(module, "MethodProcess", Process)
    monkeypatch.setattr(Process, "events", [])
    monkeypatch.setattr(type(PCA), "is_external", property(lambda self: False))
    needs = Reply(Status.UNAVAILABLE, message="no package", notes={"a": 1})
    monkeypatch.setattr(
        Process,
        "answers",
        {
            ("pca", "d"): Reply(notes={"weights": "w", "k": 3}),
            ("pca", "e"): Reply(notes={"weights": "w", "k": 3}),
            ("icp", "d"): needs,
            ("icp", "e"): needs,
            ("fgr", "d"): Reply(),
        },
    )
    setups = [MethodSetup(spec(m), d) for m in ("pca", "icp") for d in ("d", "e")] + [MethodSetup(spec("fgr"), "d")]
    module.preflight(setups, Limits(1, 2), context.console)
    assert said(context).splitlines()[:-1] == [
        "pca: weights w, k 3",
        "icp is not available on d: no package",
        "icp is not available on e: no package",
    ]
    monkeypatch.setattr(Process, "answers", {("icp", "d"): Reply(Status.INPUT, message="other architecture")})
    Process.events.clear()
    with pytest.raises(InputError, match=r"^other architecture$"):
        module.preflight(setups, Limits(1, 2), context.console)
    assert {("pca", "close")} <= set(Process.events), "processes are ended whatever happens"


# Facts


@pytest.mark.parametrize("shard", [WHOLE, Shard(2, 3)])
@pytest.mark.parametrize("gpu", [{}, {"name": "H"}])
def test_facts_of_a_run(context, monkeypatch, shard, gpu):
    monkeypatch.setattr(module, "environment", lambda: {"cpu": "x", "threads": "of the environment"})
    more = ExtraGrid((RANDOM,), (DataRegistry.at().spec("shapes40"),), (ConditionSpec.parse("clean"),), (16,))
    config = configuration(gpu=gpu, more=(more,))
    groups = make_groups(config)
    replies = {
        MethodSetup(PCA, "d"): Reply(notes={"sha256": "w"}),
        MethodSetup(ICP, "d"): Reply(Status.UNAVAILABLE, message="none"),
        MethodSetup(RANDOM, "d"): Reply(Status.ERROR, message="broke", notes={"a": 1}),
    }
    facts = module.facts_of_run(config, changed(context, shard=shard, jobs=7), groups, replies)
    json.dumps(facts)
    contents = DataRegistry.at().spec("shapes40").open().contents("test")
    assert facts.pop("data") == ({"shapes40": contents} if contents else {})
    assert facts.pop("config") == config.to_json() | {"threshold": 0.2, "angle_bins": [0.0, 90.0, 180.0]}
    assert facts.pop("methods") == {
        m.text: {"kind": m.kind, "random": m.random, "variant": m.parameters, "doc": m.summary}
        for m in (PCA, ICP, RANDOM)
    }
    machine = {"threads": 3, "device": "cpu", "jobs": 7} | ({"gpu": gpu} if gpu else {})
    assert facts == {
        "command": "bench.py run",
        "hash": config.hash,
        "problem_sets": {},
        "kinds": {f"shapes40/{name}": "objects" for name in ("clean/32", "noisy/32", "clean/16")},
        "setup": {"pca on d": {"sha256": "w"}, "random_pose on d": {"a": 1}},
        "unavailable": {"icp": "none", "random_pose": "broke"},
        "environment": {"cpu": "x"} | machine,
    } | ({"shard": "2/3"} if shard != WHOLE else {})


def rows(database, columns="method, problem, status, message, seed, kind, dataset, condition, points"):
    return database.db.execute(f"SELECT {columns} FROM outcomes ORDER BY rowid").fetchall()


@pytest.mark.parametrize("status", ["ok", "unavailable", "error", None])
@pytest.mark.parametrize("skip", ["", "no files"])
def test_what_is_not_run_is_skipped_and_a_failed_setup_has_failed(database, status, skip):
    """Without a reply, as for a group without problems, the method is not available."""
    config = configuration(methods=(ICP,))
    groups = [group for group in make_groups(config) if group.condition.text == "noisy"]
    groups = [SimpleNamespace(**vars(g), columns=g.columns) for g in groups]
    groups[0].skip = skip
    other = SimpleNamespace(**(vars(groups[0]) | {"methods": (PCA,)}))
    setup = method_setup(config, ICP, groups[0])
    module.record_skipped(
        database, config, [other, *groups], {setup: Reply(Status(status), message="why")} if status else {}
    )
    written = {"ok": None, "unavailable": "skipped", "error": "error", None: "skipped"}[status]
    expected = ("skipped", skip) if skip else (written, "why" if status else "")
    ids = [key.id for key in groups[0].keys[:2]]  # `limits`: 0.4 of 5 problems
    place = (4, ICP.kind, "shapes40", "noisy", 32)
    assert rows(database) == ([("icp", key, *expected, *place) for key in ids] if expected[0] else [])


@pytest.mark.parametrize("oracle", [False, True])
def test_the_oracle_has_the_true_pose_of_every_stored_problem(database, generated, oracle):
    config = configuration(oracle=oracle)
    groups = make_groups(config)
    database.add_problems([groups[1].problem(key) for key in groups[1].keys[:2]])
    module.record_oracle(database, config, groups)
    expected = [("oracle", k.id, "ok", "", 4, "control", "shapes40", "noisy", 32) for k in groups[1].keys[:2]]
    assert rows(database) == (expected if oracle else [])
    poses = [np.frombuffer(pose).reshape(4, 4)[0, 3] for (pose,) in rows(database, "pose")]
    assert poses == ([0.0, 1.0] if oracle else [])


# The accuracy phase


@pytest.fixture
def pool(monkeypatch, database, generated):
    """A pool that solves the batches it is given, but for what `pool.plan` says: workers lost, or Ctrl-C."""
    state = SimpleNamespace(plan=[], batches=[], stopped=False, jobs=[])

    def run_batches(batches, context, options):
        assert options == "options" and len(state.batches) < 20, "a run that stores nothing does not end"
        step = state.plan.pop(0) if state.plan else "all"
        state.batches.append([[(t.setup.method.text, len(t.keys)) for t in batch] for batch in batches])
        for number, batch in enumerate(batches):
            if step in ("lost", "lost and stopped") or (step == "lost after one" and number):
                state.stopped = step == "lost and stopped"
                raise WorkerLost("killed")
            for task in batch:
                outcomes = [Outcome(task.setup.method.text, key.id, Status.OK, seed=key.seed) for key in task.keys]
                problems = [task.group.problem(key) for key in task.keys] if task.new else []
                yield Solved(task, outcomes, ResultsDatabase.problem_rows(problems))
            if step == "stop":
                state.stopped = True
                return

    usual = module.batch_tasks
    monkeypatch.setattr(module, "batch_tasks", lambda tasks, jobs: state.jobs.append(jobs) or usual(tasks, jobs))
    monkeypatch.setattr(module, "run_batches", run_batches)
    monkeypatch.setattr(module, "worker_pool", lambda context: contextlib.nullcontext("options"))
    monkeypatch.setattr(module.interrupt, "on_interrupt", lambda what: contextlib.nullcontext())
    monkeypatch.setattr(module.interrupt, "requested", lambda: state.stopped)
    return state


def solve(database, context, **changes):
    config = configuration(**changes)
    groups = make_groups(config)
    usable = {method_setup(config, method, group) for method in config.methods[:2] for group in groups}
    module.accuracy(database, config, groups, usable, context)
    return config, groups


@pytest.mark.parametrize("plan", [[], ["lost", "lost", "all"], ["lost", "lost after one", "lost", "lost", "all"]])
def test_every_usable_method_solves_its_problems_even_if_workers_die(pool, database, context, plan):
    pool.plan = list(plan)
    _, groups = solve(database, changed(context, jobs=2), methods=(PCA, ICP, RANDOM))
    expected = [(m.text, k.id, 0) for m, n in ((PCA, 5), (ICP, 2)) for group in groups for k in group.keys[:n]]
    assert database.finished_keys("accuracy") == set(expected) and set(pool.jobs) == {2}
    assert set(database.known_problems()) == {k.id for group in groups for k in group.keys}
    lines = said(context).splitlines()
    assert lines[:-1] == ["a worker process died (killed); its problems are solved again"] * (len(plan) - bool(plan))
    assert lines[-1].startswith("registering: 14 of 14")
    assert set(rows(database, "kind, dataset, condition, points")) == {
        (m.kind, "shapes40", c, 32) for m in (PCA, ICP) for c in ("clean", "noisy")
    }


def test_workers_that_keep_dying_end_a_run(pool, database, context):
    pool.plan = ["lost"] * 3
    with pytest.raises(InputError, match=r"keep dying \(killed\); try --jobs 1"):
        solve(database, context)
    assert len(pool.batches) == module.MAX_WORKER_LOSSES == 3 and not database.finished_keys("accuracy")


@pytest.mark.parametrize("plan", ["stop", "lost and stopped"])
def test_ctrl_c_ends_the_phase_without_a_word_on_workers(pool, database, context, plan):
    pool.plan = [plan]
    solve(database, context)
    assert len(pool.batches) == 1 and "died" not in said(context)
    assert bool(database.finished_keys("accuracy")) == (plan == "stop")


def test_a_shard_solves_its_part_and_what_is_done_is_not_solved_again(pool, database, context):
    config, groups = solve(database, changed(context, shard=Shard(2, 3)))
    tasks = make_tasks(config, groups, set(), set(), Shard(2, 3))
    assert database.finished_keys("accuracy") == {(t.setup.method.text, k.id, 0) for t in tasks for k in t.keys}
    pool.batches.clear()
    solve(database, changed(context, shard=Shard(2, 3)))
    assert pool.batches == [] and len(database.finished_keys("accuracy")) == sum(len(t.keys) for t in tasks)


# All steps


@pytest.fixture
def steps(monkeypatch, generated):
    """The steps of a run that start processes, replaced by ones that write down what they are given."""
    steps = SimpleNamespace(calls=[], replies={}, fails=False)

    def preflight(setups, limits, console):
        steps.calls.append(("preflight", setups, limits))
        return {setup: steps.replies.get(setup.method.text, Reply(notes={"sha256": "w"})) for setup in setups}

    def accuracy(database, config, groups, usable, context):
        steps.calls.append(("accuracy", [g.name for g in groups], usable))
        database.add_problems([groups[0].problem(key) for key in groups[0].keys])
        if steps.fails:
            raise ZeroDivisionError

    class Timing:
        def __init__(self, database, config, usable, context):
            self.usable = usable

        def run(self):
            steps.calls.append(("timing", self.usable))

    monkeypatch.setattr(module, "prepare", lambda setups: steps.calls.append(("prepare", list(setups))))
    monkeypatch.setattr(module, "preflight", preflight)
    monkeypatch.setattr(module, "accuracy", accuracy)
    monkeypatch.setattr(module, "TimingPhase", Timing)
    monkeypatch.setattr(module, "check_workers", lambda replies, limits, context: {"worker": {"cpu": len(replies)}})
    monkeypatch.setattr(module, "machine", lambda: "here")
    monkeypatch.setattr(module, "machine_facts", lambda: {"cpu": "own"})
    return steps


@pytest.mark.parametrize("shard", [WHOLE, Shard(1, 3), Shard(2, 3)])
def test_a_run_sets_up_solves_times_and_stores_everything(context, steps, shard):
    steps.replies["icp"] = Reply(Status.UNAVAILABLE, message="none")
    config = configuration(oracle=True)
    here = changed(context, shard=shard, jobs=2)
    groups = make_groups(config)
    setups = [method_setup(config, method, groups[0]) for method in (PCA, ICP)]
    with contextlib.closing(module.run(config, here)) as database:
        timed = [("timing", {setups[0]})] * (shard.number == 1)
        assert steps.calls == [
            ("prepare", setups),
            ("preflight", setups, Limits(20.0, 4.0)),
            ("accuracy", [g.name for g in groups], {setups[0]}),
            *timed,
        ]
        facts = database.get("run")
        assert set(database.known_problems()) == {key.id for group in groups for key in group.keys}
        assert facts["problem_sets"].keys() == {group.name for group in groups}
        assert facts["machines"] == {"here": {"cpu": "own"}, "worker": {"cpu": 2}}
        notes = module._timing_notes(config, here) + module.collect_notes(config, groups, here)
        assert facts["notes"] == notes and len(notes) == 2
        assert facts["setup"] == {f"pca on {setups[0].domain}": {"sha256": "w"}}
        assert len(database.get("finished")) == len("2026-01-01T00:00:00+0000")
        written = rows(database, "method, status")
        assert written == [("icp", "skipped")] * 4 + [("oracle", "ok")] * 10
    assert said(context).splitlines()[0] == notes[1]
    steps.calls.clear()
    with contextlib.closing(module.run(config, here)) as database:
        assert database.get("run")["machines"].keys() == {"here", "worker"} and len(steps.calls) == 3 + len(timed)
    assert "continuing: 10 outcomes exist already" in said(context)


def test_sets_that_are_stored_have_their_digest_even_if_a_run_ends_early(context, steps):
    steps.fails = True
    config = configuration()
    with pytest.raises(ZeroDivisionError):
        module.run(config, context)
    with contextlib.closing(ResultsDatabase(context.folder / "record.sqlite")) as database:
        (first, _) = make_groups(config)
        assert database.get("run")["problem_sets"].keys() == {first.name} and database.get("finished") is None
    assert [name for name, *_ in steps.calls] == ["prepare", "preflight", "accuracy"]


@pytest.mark.parametrize("fresh", [False, True])
def test_nothing_is_written_before_a_method_can_run(context, steps, fresh):
    steps.replies = dict.fromkeys(("pca", "icp"), Reply(Status.UNAVAILABLE, message="none"))
    with pytest.raises(InputError, match="none is available"):
        module.run(configuration(), changed(context, fresh=fresh))
    assert not context.folder.exists()


def test_changed_problems_of_a_run_that_is_continued_are_found_before_methods_start(context, steps):
    config = configuration()
    with contextlib.closing(module.run(config, context)) as database:
        database.db.execute("UPDATE problems SET digest = zeroblob(32)")
        database.db.commit()
    steps.calls.clear()
    with pytest.raises(InputError, match="is generated differently now"):
        module.run(config, context)
    assert [name for name, *_ in steps.calls] == ["prepare"]
    module.run(config, changed(context, fresh=True)).close()


def test_machines_and_weights_of_a_run_that_is_continued_are_kept_and_compared(context, steps):
    config = configuration()
    with contextlib.closing(module.run(config, context)) as database:
        database.put("run", database.get("run") | {"machines": {"before": {"cpu": "old"}}})
        database.add_outcomes([Outcome("pca", "p", Status.OK)], "global", ("d", "c", 3))
    with contextlib.closing(module.run(config, context)) as database:
        assert database.get("run")["machines"].keys() == {"before", "here", "worker"}
    steps.replies["pca"] = Reply(notes={"sha256": "changed"})
    with pytest.raises(InputError, match="the weights of pca on "):
        module.run(config, context)
