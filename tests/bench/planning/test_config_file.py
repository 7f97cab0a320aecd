"""Configuration files: TOML and run.json."""

import json

import pytest

from bench.cli import main
from bench.planning import config_file
from common.errors import InputError
from tests.bench.command_line import PLUGINS, QUICK, configuration, refused
from tests.bench.planning.extra_grid import FILE


def test_toml_equals_flags_and_flags_have_priority(empty_folder):
    (empty_folder / "mine.toml").write_text(
        'methods = ["good", "icp[trim=0.2]"]\ndatasets = "blobs"\nconditions = ["noisy"]\npoints = [50, 60]\nproblems = 7\n'
        "memory_limit = 2.5\nskip_bad = false\njobs = 1\n[limits]\ngood = 0.5\n[timing]\nrounds = 1\n"
    )
    config, jobs = configuration("--config", "mine.toml", "--problems", "9")
    assert [m.text for m in config.methods] == ["good", "icp[trim=0.2]"]
    assert config.points == config.timing_points == (50, 60)
    assert (config.problems, config.memory_limit_gb, config.limit(config.methods[0]), jobs) == (9, 2.5, 4, 1)
    assert config.timing_rounds == 1 and config.timing_budget_s > 0
    typed, _ = configuration("--methods", "good", "icp[trim=0.2]", "--datasets", "blobs", "--conditions", "noisy",
                        "--points", "50", "60", "--problems", "9", "--memory-limit", "2.5", "--timing-rounds", "1")  # fmt: skip
    assert {**typed.__dict__, "limits": None} == {**config.__dict__, "limits": None}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("problms = 3", "unknown setting of c.toml 'problms'; did you mean problems"),
        ("problems = ", "neither TOML nor a run.json"),
        ("problems = {a = 1}", "field 'problems' is a table; give a whole number, 1 to 10000000"),
        ("problems = 'five'", "field 'problems' is 'five'; give a whole number, 1 to 10000000"),
        ("seed = 'x'", "field 'seed' is 'x'; give a whole number, of at most 64 bits, also below 0"),
        (
            "conditions = ['noisy[sgma=1]']",
            "--config c.toml: unknown parameter of condition noisy 'sgma'; did you mean sigma?",
        ),
        ("datasets = ['shapes4']", "--config c.toml: unknown data set 'shapes4'"),
        ("methods = ['icpp']", "--config c.toml: unknown method 'icpp'"),
        ("problems = 0", "--config c.toml: --problems: must be 1 to 10000000"),
        ("limits = 3", "field 'limits' is not a table"),
        ("[timing]\nround = 1", "unknown setting of c.toml, [timing] 'round'; did you mean rounds"),
    ],
)
def test_a_bad_file_is_one_line(empty_folder, capsys, text, says):
    (empty_folder / "c.toml").write_text(text)
    assert main.main(["--config", "c.toml"]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_missing_file_and_foreign_json_are_reported(empty_folder, capsys):
    assert main.main(["--config", "nowhere.toml"]) == 2 and "cannot be read" in capsys.readouterr().err
    for text, says in (
        ("[1]", "(it has no member 'config')"),
        ('{"command": "x"}', "(it has no member 'config')"),
        ('{"config": 3}', "(its member 'config' is no object)"),
        ('{"config": {"methods": []}}', "(its 'config' has no member 'datasets')"),
    ):
        (empty_folder / "x.json").write_text(text)
        assert f"--config x.json: neither TOML nor a run.json {says}" in refused(capsys, "--config", "x.json")


def test_an_error_of_the_command_line_does_not_name_the_file(empty_folder, capsys):
    (empty_folder / "c.toml").write_text("problems = 2\n")
    error = refused(capsys, "--config", "c.toml", "--conditions", "noisy[sgma=1]")
    assert error.startswith("bench.py: unknown parameter of condition noisy 'sgma'")


def test_each_flag_of_a_file_becomes_one_argument():
    file = config_file.ConfigFile("f", {"methods": ["a", "b[x=1,y=2]"], "dry_run": True, "skip_bad": False}, {})
    types = {"methods": config_file.TEXTS, "dry-run": config_file.SWITCH, "skip-bad": config_file.SWITCH}
    assert file.arguments(types) == ["--methods=a,b[x=1,y=2]", "--dry-run"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fresh = true", "'fresh' deletes a run"),
        ("fresh = false", "'fresh' deletes a run"),
        ("[limits]\nidentity = 'x'", "'limits.identity' is 'x'; give a number"),
        ("[limits]\nidentity = [1]", "'limits.identity' is [1]; give a number"),
        ("[limits]\nidentity = nan", "give a number"),
        ("[timing]\nrounds = 1.5", "'timing.rounds' is 1.5; give a whole number"),
        ("[timing]\nrounds = true", "'timing.rounds' is True; give a whole number"),
        ("[timing]\npoints = 5", "'timing.points' is 5; give a list of whole numbers"),
        ("[timing]\nbudget_s = 1979-05-27", "give a number"),
        ("[timing]\nbudget_s = -0.1", "'timing.budget_s' is -0.1; give a number"),
        ("[timing]\nrounds = -1", "'timing.rounds' is -1; give a whole number"),
        ("[timing]\npoints = [64, 0]", "'timing.points' is [64, 0]; give a list of whole numbers"),
        ("[[more]]\nmethods=[1]\ndatasets=['blobs']\nconditions=['noisy']\npoints=[9]", "'more.methods' is [1]"),
        ("[[more]]\nmethods=['icp']\ndatasets=['blobs']\nconditions=['noisy']\npoints=['x']", "'more.points' is ['x']"),
        ("seed = 'x'", "c.toml: field 'seed' is 'x'; give a whole number"),
        ("problems = 1.5", "c.toml: field 'problems' is 1.5; give a whole number"),
        ("seed = 123456789012345678901234567890", "--seed: must fit into 64 bits"),
        ("out = true", "c.toml: field 'out' is True; give a text"),
    ],
)
def test_wrong_types_in_a_file_are_one_line(project, capsys, text, says):
    (project / "c.toml").write_text(text)
    assert says in refused(capsys, *QUICK, "--methods", "identity", "--config", "c.toml")


WRONG = {
    config_file.SWITCH: ['"yes"', "1", "[true]"],
    config_file.TEXT: ["3", "1.5", "true", '["a"]', "{a = 1}", "2020-01-01", r'"a\u0000b"'],
    config_file.INTEGER: ['"3"', "1.5", "true", "[3]", "{a = 1}", "2020-01-01", "nan"],
    config_file.NUMBER: ['"3"', "true", "[3]", "{a = 1}", "2020-01-01", "nan", "inf"],
    config_file.INTEGERS: ["1.5", "true", "[1, 1.5]", "[]", "[[1]]", "{a = 1}", "2020-01-01"],
    config_file.NUMBERS: ["true", "[1, '2']", "[]", "[[1]]", "{a = 1}", "2020-01-01", "[inf]"],
    config_file.TEXTS: ["3", "true", "[1]", "[]", '["a", 1]', '[["a"]]', "{a = 1}", "2020-01-01"],
}


@pytest.mark.parametrize("command", ["run", "problems", "pair"])
def test_every_flag_of_a_file_refuses_values_of_another_type(empty_folder, capsys, command):
    parser = main._parser(train=False)[1][command]
    flags = {a.option_strings[-1][2:]: main._type_of(a) for a in parser.actions if a.dest not in main.NOT_IN_CONFIG}
    flags = {name: kind for name, kind in flags.items() if name not in ("help", "config", "fresh")}
    assert len(flags) > 8
    for name, kind in flags.items():
        for value in WRONG[kind]:
            (empty_folder / "c.toml").write_text(f"{name} = {value}\n")
            files = ["a.ply", "b.ply"] if command == "pair" else []
            error = refused(capsys, command, *files, "--config", "c.toml")
            assert f"--config c.toml: field '{name}' is " in error and error.endswith(
                f"; give {config_file.wanted(name, kind)}\n"
            )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("problems = 1000000000000000", "--problems: must be 1 to 10000000"),
        ("points = [1000000000000000]", "--points: must be 1 to 10000000"),
        ("repeats = 1000000000000000", "--repeats: must be 1 to 10000000"),
        ("timing_rounds = -1", "--timing-rounds: must be 0 to 10000000"),
        ("timeout = 1e300", "--timeout: must be above 0"),
        ("memory_limit = 0", "--memory-limit: must be above 0"),
        ("jobs = 1000000", "--jobs: must be 1 to 1024"),
        ("datasets = ''", "--datasets: is empty"),
        ("conditions = ','", "--conditions: is empty"),
        ("points = 'zz'", "--points: 'zz' is not a whole number"),
        ("angles = 'zz'", "--angles: 'zz' is not a number"),
    ],
)
def test_values_out_of_range_are_refused_before_anything_is_made(empty_folder, capsys, text, says):
    (empty_folder / "c.toml").write_text(text)
    assert says in refused(capsys, "--methods", "identity", "--config", "c.toml")


def test_problems_of_a_run_json_are_those_of_its_run(finished_run, capsys):
    capsys.readouterr()
    assert main.main(["problems", "--config", str(finished_run / "run.json"), "--plugins", str(PLUGINS)]) == 0
    there = json.loads((finished_run / "run.json").read_text())["problem_sets"]
    assert capsys.readouterr().out.split() == [there["blobs/noisy/60"], "blobs/noisy/60"]


def test_run_json_with_extra_grids_continues_its_run(run_file, tmp_path, capsys):
    assert run_file(FILE, "--out", "r") == 0
    assert main.main(["--config", "results/r/run.json", "--plugins", str(PLUGINS), "--out", "r", "--jobs", "1"]) == 0
    assert "continuing: 24 outcomes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[more]]", "[more]", "field 'more' is not a list of tables; write [[more]]"),
        ('methods = ["good", "identity"]', "", "a table [[more]] lacks 'methods'"),
        ("points = [60, 40]", "points = 60", "field 'more.points' is 60; give a list of whole numbers"),
        ("points = [60, 40]", "points = [60]\npoint = [3]", "did you mean points"),
        ('"identity"', '"identiti"', "unknown method 'identiti'"),
    ],
)
def test_bad_tables(run_file, capsys, old, new, message):
    assert run_file(FILE.replace(old, new)) == 2
    assert message in capsys.readouterr().err


def test_a_table_may_have_a_share_of_zero_and_counts_from_one(empty_folder):
    (empty_folder / "c.toml").write_text(
        "[limits]\nicp = 0\nfgr = 0.0\n[timing]\nrounds = 0\nbudget_s = 0\npoints = [1]\n"
    )
    tables = config_file.read(empty_folder / "c.toml").tables
    assert tables == {"limits": {"icp": 0, "fgr": 0.0}, "timing": {"rounds": 0, "budget_s": 0, "points": [1]}}


@pytest.mark.parametrize(("length", "shown"), [(38, 40), (39, 41)])
def test_a_wrong_value_is_shown_up_to_forty_characters(empty_folder, length, shown):
    (empty_folder / "c.toml").write_text(f"seed = '{'x' * length}'")
    with pytest.raises(InputError) as error:
        config_file.read(empty_folder / "c.toml").arguments({"seed": config_file.INTEGER})
    text = f"'{'x' * length}'"
    assert f"field 'seed' is {text if shown == 40 else text[:40] + '…'}; give a whole number" in str(error.value)


def test_a_run_of_an_earlier_version_or_of_one_seed_is_read_and_one_of_two_seeds_refused(empty_folder, given):
    earlier = {
        name: value for name, value in given.to_json().items() if name not in ("repeats", "batch", "kind", "more")
    }
    later = given.to_json() | {"kind": "scans", "oracle": True, "seeds": [5]}
    for config in (earlier, later):
        (empty_folder / "run.json").write_text(json.dumps({"config": config}))
        file = config_file.read(empty_folder / "run.json")
        names = "datasets conditions points angles sampler problems seed threads device timeout repeats batch kind"
        expected = {name: config.get(name, 1) for name in names.split() if config.get(name, 1) is not None}
        expected |= {
            "methods": config["methods"] + ["oracle"] * config["oracle"],
            "memory-limit": config["memory_limit_gb"],
        }
        expected = {name: value for name, value in expected.items() if name != "kind" or "kind" in config}
        assert file.flags == expected and file.of_run
        timing = {name: config[f"timing_{name}"] for name in ("points", "rounds", "budget_s")}
        assert file.tables == {"limits": config["limits"], "timing": timing, "more": config.get("more", [])}
    (empty_folder / "run.json").write_text(json.dumps({"config": later | {"seeds": [5, 7]}}))
    with pytest.raises(InputError, match="have the seeds 5, 7; give the"):
        config_file.read(empty_folder / "run.json")
