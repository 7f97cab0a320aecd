"""Files of a report, and its page as text."""

import re
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from bench.evaluation import aggregate
from bench.planning.catalog import Catalog
from bench.report import Options, ProblemReplay, build, errors_by_group, jobs
from tests.bench.report.conftest import CRITERION, FEW, report
from tests.bench.synthetic_run import HOSTILE, as_loaded, synthetic_run


def _report_of(loaded, replay, options):
    frames = aggregate.tables(loaded, CRITERION)
    return build._Report(loaded, frames, errors_by_group(frames, CRITERION), replay, options)


def test_all_files_are_written(written):
    folder, files = written
    assert files[0] == folder / "reports" / "a" / "report.html"
    names = {file.name for file in files}
    group = "modelnet40_noisy_1024"
    kinds = (
        f"cdf_{group}",
        f"recall_time_{group}",
        f"angle_{group}",
        f"categories_{group}",
        "time_angle_256",
    )
    assert {f"{kind}.{end}" for kind in kinds for end in jobs.FORMATS} <= names
    assert "time_points.png" not in names, "the run has one number of points"
    stems = (f"categories_{group}", f"summary_{group}", "table1", "table2", "conventions", "recall", "duels")
    assert {f"{stem}.{end}" for stem in stems for end in ("csv", "md", "tex")} | {"summary.md"} <= names
    assert all(file.stat().st_size > 20 for file in files)
    assert not list(folder.rglob("*.tmp"))


def test_the_page_needs_no_other_host_and_escapes_names(written):
    page = written[1][0].read_text()
    assert HOSTILE not in page and "&lt;script&gt;alert(1)" in page
    start = page.index('<script type="text/plain"')
    ours = page[:start] + page[page.index("</script>", start) :]  # all but plotly.js
    assert not re.search(r'(?:src|href)="(?!#|data:|\.\./|figures/|tables/)', ours)
    assert "url(http" not in ours and "@import" not in ours
    assert "../../results/a/summary.csv" in page
    assert str(written[0]) not in page.replace(str(written[0] / "nowhere"), "")
    assert len(page) < 6e6


def test_the_page_contains_headlines_weights_and_digests(written, synthetic):
    page, run = written[1][0].read_text(), synthetic[2]
    for text in (
        "the best recall@0.2",
        "shapes40.safetensors",
        "has 512 fixed points",
        "pip install absent",
        "a synthetic one",
        "No pictures of modelnet40",
    ):
        assert text in page
    for name, digest in run["problem_sets"].items():
        assert name in page and digest in page


@pytest.mark.parametrize(("skipped", "evaluated"), [([], 1), (["identity"], 1), (FEW, 0)])
def test_a_group_counts_as_evaluated_if_any_of_its_methods_was_run(synthetic, tmp_path, skipped, evaluated):
    problems, outcomes, run = synthetic
    is_skipped = outcomes["method"].isin(skipped)
    changed = outcomes.assign(status=outcomes["status"].where(~is_skipped, "skipped"))
    changed = changed[~changed["problem"].str.startswith("none/")]
    loaded = as_loaded(problems, changed.assign(pose=changed["pose"].where(~is_skipped, None)), run)
    options = Options(CRITERION, False, tmp_path, tmp_path / "reports")
    replay = ProblemReplay(loaded, Catalog.of(tmp_path))
    made = _report_of(loaded, replay, options)
    assert len(made.groups) == 1 and len(made.evaluated) == evaluated


@pytest.mark.parametrize("against", [False, True])
def test_the_numbers_of_the_paper_stand_beside_ours_only_if_asked(synthetic, tmp_path, monkeypatch, against):
    """Those of a group in its own tables: by method, and by category."""
    loaded = as_loaded(*synthetic)
    options = Options(CRITERION, against, tmp_path, tmp_path / "reports")
    made = _report_of(loaded, ProblemReplay(loaded, Catalog.of(tmp_path)), options)
    given = []
    monkeypatch.setattr(build.paper, "beside", lambda *what: {("m", *what): "number"})
    monkeypatch.setattr(build.paper, "paper_tables", lambda *_: {})
    monkeypatch.setattr(build.tables, "summary_table", lambda g, a, b, c, theirs, d: given.append((g, theirs)))
    monkeypatch.setattr(build.tables, "category_table", lambda g, a, b, theirs, c: given.append((g, theirs)))
    made.tables  # noqa: B018
    groups = [(g, {("m", g): "number"} if against else {}) for g in made.groups]
    groups += [(g, {("m", g, "category"): "number"} if against else {}) for g in made.compared]
    assert given == groups and len(made.compared) == 1


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The report of a run of two methods under two conditions, of which nothing is drawn."""
    given = synthetic_run(n=20, sizes=(256,), methods=("deepgmr", "icp"), conditions=("noisy", "clean"))
    loaded, folder = as_loaded(*given), tmp_path_factory.mktemp("made")
    options = Options(CRITERION, False, folder / "results" / "a", folder / "reports" / "a")
    replay = ProblemReplay(loaded, Catalog.of(folder))
    return _report_of(loaded, replay, options)


def test_the_page_gets_what_the_run_has(made, monkeypatch):
    seen = []
    monkeypatch.setattr(build.html, "render", lambda *given, **content: seen.append((given, content)) or "page")
    job = jobs.FigureJob(None, (), "cdf", "t", "c", Path("cdf_modelnet40_noisy_1024"))
    assert made.page([job, job._replace(stem=Path("points_modelnet40_noisy"))]) == "page"
    (((selectable, charts, worst), content),) = seen
    clean, noisy = (("modelnet40", name, 1024) for name in ("clean", "noisy"))
    assert selectable.kinds == {"icp": "local", "deepgmr": "learned"} and selectable.first == noisy
    assert selectable.main == [clean, noisy] and list(selectable.best) == [clean, noisy]
    assert list(charts["cdf"]) == [clean, noisy] and worst["methods"] == []
    assert content["link"] == "../../results/a" and content["weights"] == [("deepgmr", "shapes40.safetensors")]
    assert content["figures"] == [(job, noisy), (job._replace(stem=Path("points_modelnet40_noisy")), None)]
    assert [group for group, _ in content["verdicts"]] == [clean, noisy] and content["not_run"] == []
    assert set(content["csvs"]) == {f"{name}.csv" for name in made.frames} and not content["against"]
    assert list(content["duels"]) == [clean, noisy] == list(content["summary"])
    assert ("problems", "20") in content["config"] and ("packages.numpy", "2.4") in content["environment"]


@pytest.mark.parametrize("main", [("noisy",), ("clean", "noisy")])
def test_the_page_states_further_groups_in_a_closed_part(made, monkeypatch, main):
    monkeypatch.setattr(build.paper, "main_groups", lambda _: [("modelnet40", name, 1024) for name in main])
    section = made.page([]).split('<section id="verdict">')[1].split("</section>")[0]
    shown, *closed = section.split("<details")
    for part, names in zip((shown, *closed), (main, ("clean",)), strict=len(main) == 1):
        titles = re.findall(r"<button[^>]*data-g[^>]*>([^<]*)</button>", part)
        assert titles == [f"modelnet40 · {name} · 1024 points" for name in names]
        assert part.count("n = 20") == len(names)
    assert ("With other numbers of points" in section) == (len(closed) == 1) == (len(main) == 1)


def test_tables_are_written_into_new_folders_and_again(made):
    first, again = made.write_tables(), made.write_tables()
    assert first == again and first[0] == made.options.folder / "summary.md" and all(f.is_file() for f in first)
    stems = {f"{kind}_modelnet40_{name}_1024" for kind in ("summary", "categories") for name in ("clean", "noisy")}
    stems |= {"table1", "table2", "conventions", "recall", "duels"}
    assert {f.name for f in first[1:]} == {f"{stem}.{end}" for stem in stems for end in ("csv", "md", "tex")}
    text = first[0].read_text().split("\n")
    assert text[:2] == ["# Summary", ""] and [line[:2] for line in text[2:5]] == ["- ", "- ", ""]
    assert sum(line.startswith("### ") for line in text) == 2


def test_a_method_is_not_run_if_it_is_in_no_group():
    rows = [[("a", 3), ("b", 0), ("c", 0)], [("a", 0), ("b", 5), ("c", 0)]]
    of_groups = {i: [{"method": m, "problems": n} for m, n in some] for i, some in enumerate(rows)}
    (line,) = build._Report._not_run(SimpleNamespace(rows=of_groups))
    assert line.startswith("Not run: c; ")
    assert build._Report._not_run(SimpleNamespace(rows={0: of_groups[0][:1]})) == []


def test_nested_facts_become_lines_with_dotted_names():
    tree = {"a": {"b": {"c": 1}, "d": "text"}, "e": [1, "x"], "f": None, "g": Path("p"), "h": {}}
    expected = [("a.b.c", "1"), ("a.d", "text"), ("e", '[1, "x"]'), ("f", "null"), ("g", '"p"')]
    assert build._flat(tree) == expected


def test_weights_are_listed_once_by_method():
    notes = ['{"weights": "b"}', '{"weights": "a"}', "{}", '{"weights": "a"}', '{"weights": "a"}']
    frame = pd.DataFrame({"method": ["n", "n", "m", "m", "n"], "notes": notes})
    assert build._weights(frame) == [("m", "a"), ("n", "a"), ("n", "b")]


def test_two_reports_of_one_run_are_the_same_bytes(written, synthetic, tmp_path, monkeypatch):
    """The first is drawn by several processes, the other by this one."""
    monkeypatch.setattr(jobs, "MAX_SERIAL_FIGURES", 10**6)
    problems, outcomes, run = synthetic
    again = report(as_loaded(problems, outcomes.sample(frac=1, random_state=3), run), tmp_path)
    for one, two in zip(written[1], again, strict=True):
        if one.suffix != ".png":
            assert one.read_bytes().replace(bytes(written[0]), bytes(tmp_path)) == two.read_bytes(), one.name


def test_a_method_on_few_problems_is_last_and_faint_in_every_table(synthetic, tmp_path, png_only):
    problems, outcomes, run = synthetic
    few = (outcomes["method"] == "deepgmr") & ~outcomes["problem"].str[-2:].isin(["00", "01", "02"])
    loaded = as_loaded(problems, outcomes[~(few & (outcomes["phase"] == "accuracy"))], run)
    files = {file.name: file for file in report(loaded, tmp_path, against=True)}
    page = files["report.html"].read_text()
    for section in ("summary", "paper", "coverage", "duels", "conventions"):
        part = page[page.index(f' id="{section}">') :].split("</section>")[0]
        body = part.split("<tbody>")[1].split("</tbody>")[0]
        rows = [row for row in body.split("<tr")[1:] if "(deepgmr" not in row and ">not run<" not in row]
        faint = [row.startswith(" class=few ") for row in rows]
        assert any(faint) and faint == ["deepgmr, n = 3" in row for row in rows] == sorted(faint), section
        assert not any("best" in row for row, few in zip(rows, faint, strict=True) if few)
    group = "modelnet40_noisy_1024"
    assert "deepgmr, n = 3" in files[f"categories_{group}.md"].read_text().splitlines()[2].split("|")[-2]
    last = {"md": "| deepgmr, n = 3 |", "csv": '"deepgmr, n = 3"', "tex": "deepgmr, n = 3"}
    for end, name in last.items():
        lines = files[f"summary_{group}.{end}"].read_text().splitlines()
        rows = [line for line in lines if any(m in line for m in ("deepgmr", "fgr+icp", "identity"))]
        assert len(rows) == 3 and rows[-1].startswith(name)


@pytest.mark.parametrize("keep", ["skipped", "accuracy", "one method"])
def test_runs_with_little_in_them(synthetic, tmp_path, keep, png_only):
    problems, outcomes, run = synthetic
    kept = {
        "skipped": outcomes[outcomes["status"] == "skipped"],
        "accuracy": outcomes[outcomes["phase"] == "accuracy"],
        "one method": outcomes[(outcomes["method"] == "fgr+icp") & (outcomes["phase"] == "accuracy")],
    }[keep]
    files = report(as_loaded(problems, kept, run | {"notes": [], "unavailable": {}}), tmp_path)
    assert files[0].exists() and len(files) >= 2
