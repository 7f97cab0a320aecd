"""The page in a real browser: Debian's Chromium, headless, through Selenium. Skipped with the reason where either is missing."""

import json
import shutil
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pytest

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.planning.catalog import Catalog
from bench.report import Options, ProblemReplay, begin_report, errors_by_group
from bench.report.embed import script_json
from datasets.problems import ProblemKey, make_problem
from tests.bench.png_figures import save_blank
from tests.bench.synthetic_run import HOSTILE, as_loaded, synthetic_run
from tests.catalog import open_data

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing: pip install -r requirements-dev.txt")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium and chromedriver: apt-get install chromium chromium-driver"
)
CRITERION = CONVENTIONS["deepgmr"]
ROWS = "[...document.querySelector('#summary .of-group:not([hidden]) table').tBodies[0].rows]"
"""The rows of the summary that is shown, in JavaScript."""


def browser():
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1300,900"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def drawable_run():
    """Return a synthetic run on problems that the embedded data set can regenerate, so that clouds can be shown."""
    problems, outcomes, run = synthetic_run(
        n=24, sizes=(256, 1024), methods=("deepgmr", "fgr+icp", "identity", HOSTILE)
    )
    problems, outcomes = (t.assign(dataset="shapes40") for t in (problems, outcomes))
    for table in (problems, outcomes):
        table["problem"] = table["problem"].str.replace("modelnet40", "shapes40")
    loaded = as_loaded(problems, outcomes, run)
    data = open_data("shapes40")
    for row in np.flatnonzero(loaded.problems["condition"] == "noisy"):
        key = ProblemReplay(loaded, Catalog.of()).key(loaded.problems["problem"][row])
        if key.points == 1024 and key.angles == (0.0, 180.0) and not loaded.problems["problem"][row].count("0-180"):
            problem = make_problem(data, ProblemKey("shapes40", "noisy", 1024, key.index, 0))
            loaded.problems.at[row, "digest"] = problem.sha256()
    return loaded


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    loaded = drawable_run()
    only_noisy = aggregate.add_success(loaded, CRITERION)
    frames = aggregate.tables(loaded, CRITERION, only_noisy)
    options = Options(CRITERION, True, folder / "run", folder / "report", run="mine")
    with pytest.MonkeyPatch.context() as patch:
        save_blank(patch)
        errors = errors_by_group(frames, CRITERION)
        begin_report(loaded, frames, errors, ProblemReplay(loaded, Catalog.of(folder)), options)()
    driver = browser()
    driver.get((folder / "report" / "report.html").as_uri())
    yield driver
    driver.quit()


def drawn(driver, name):
    """Scroll a chart into the window and wait until it is drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.execute_script("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", name)
    WebDriverWait(driver, 20).until(
        lambda d: d.execute_script(
            "return document.getElementById(arguments[0]).querySelectorAll('.xy .trace').length", name
        )
    )
    return driver.find_element("id", name)


def pixels(driver, canvas):
    return driver.execute_script("return arguments[0].toDataURL()", canvas)


def test_a_hostile_name_stays_text(opened):
    with pytest.raises(Exception, match="no such alert"):
        opened.switch_to.alert.text  # noqa: B018
    cells = opened.execute_script(
        "return [...document.querySelectorAll('#summary td:first-child')].map(c => c.textContent)"
    )
    assert HOSTILE in cells
    legend = drawn(opened, "cdf-chart").find_elements("css selector", ".legendtext")
    assert any(
        HOSTILE in (text.get_attribute("data-unformatted") or text.text).replace("&lt;", "<").replace("&gt;", ">")
        for text in legend
    )
    assert opened.execute_script("return document.querySelectorAll('body script').length") == 5


def test_a_click_on_a_head_sorts(opened):
    def values():
        return opened.execute_script(f"return {ROWS}.filter(r => !r.hidden).map(r => Number(r.cells[3].dataset.v))")

    head = opened.find_elements("css selector", "#summary .of-group:not([hidden]) .sort")[3]
    opened.execute_script("arguments[0].click()", head)
    assert values() == sorted(values())
    opened.execute_script("arguments[0].click()", head)
    assert values() == sorted(values(), reverse=True)
    assert head.find_element("xpath", "ancestor::th").get_attribute("aria-sort") == "descending"


def test_methods_with_few_problems_stay_last_whatever_the_order(opened):
    rows = ROWS
    opened.execute_script(f"{rows}[1].classList.add('few')")
    head = opened.find_elements("css selector", "#summary .of-group:not([hidden]) .sort")[3]
    for _ in range(2):
        opened.execute_script("arguments[0].click()", head)
        assert opened.execute_script(f"return {rows}.findIndex(r => r.classList.contains('few')) === {rows}.length - 1")
    opened.execute_script(f"{rows}.forEach(r => r.classList.remove('few'))")


def test_heads_are_reached_and_pressed_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    head = opened.find_elements("css selector", "#summary .of-group:not([hidden]) .sort")[0]
    opened.execute_script("arguments[0].focus()", head)
    head.send_keys(Keys.ENTER)
    assert head.find_element("xpath", "ancestor::th").get_attribute("aria-sort") == "ascending"
    assert opened.switch_to.active_element == head
    head.send_keys(Keys.TAB)
    assert opened.switch_to.active_element != head


def test_the_filter_hides_rows(opened):
    opened.execute_script("document.getElementById('coverage').open = true")
    box = opened.find_element("css selector", "#coverage input[type=search]")
    condition = opened.execute_script("return groupOf[selection.group].condition")
    rows = "[...document.querySelector('#coverage table').tBodies[0].rows]"
    before = opened.execute_script(f"return {rows}.filter(r => !r.hidden).map(r => r.textContent)")
    assert len(before) == 3 and all(condition in row for row in before)
    box.send_keys(f"fgr {condition}")
    shown = opened.execute_script(f"return {rows}.filter(r => !r.hidden).map(r => r.textContent)")
    assert len(shown) == 1 and "fgr+icp" in shown[0] and condition in shown[0]
    assert box.find_element("xpath", "../output").text.startswith("1 of ")
    box.clear()
    box.send_keys(" ")
    opened.execute_script("document.getElementById('coverage').open = false")


def shown_methods(driver, table):
    rows = f"[...document.querySelector('{table} tbody').rows]"
    return driver.execute_script(f"return {rows}.filter(r => !r.hidden).map(r => r.dataset.m)")


def test_one_filter_of_methods_for_tables_and_charts(opened):
    chart, control = drawn(opened, "cdf-chart"), "document.querySelector('input[value=control]').click()"
    before = shown_methods(opened, "#summary .of-group:not([hidden])")
    assert "identity" not in before and "deepgmr" in before
    opened.execute_script(control)
    assert set(shown_methods(opened, "#summary .of-group:not([hidden])")) == {*before, "identity"}
    names = opened.execute_script("return arguments[0].data.map(t => t.meta)", chart)
    assert set(names) == {*before, "identity"}
    opened.execute_script(control)
    assert opened.find_element("id", "shown").text.startswith(f"{len(before)} of ")


def test_a_single_method_has_room_around_its_point(opened):
    chart = drawn(opened, "pareto-chart")
    boxes = opened.find_elements("css selector", "input[name=method]")
    shown = [box.is_selected() for box in boxes]
    only = next(box for box in boxes if box.get_attribute("value") == "deepgmr")
    for box in boxes:
        if box.is_selected() != (box == only):
            opened.execute_script("arguments[0].click()", box)
    low, high, at = opened.execute_script(
        "const t = arguments[0].data.find(t => t.meta); return [...arguments[0]._fullLayout.xaxis.range, Math.log10(t.x[0])]",
        chart,
    )
    for box, was in zip(boxes, shown, strict=True):
        if box.is_selected() != was:
            opened.execute_script("arguments[0].click()", box)
    assert low + 0.4 < at < high - 0.4


def test_the_condition_is_selected_once_for_all(opened):
    from selenium.webdriver.support.ui import Select

    condition = Select(opened.find_element("css selector", "select[name=condition]"))
    first = condition.first_selected_option.text
    for option in ("clean", "noisy", first):
        condition.select_by_visible_text(option)
        groups = opened.execute_script(
            "return [...document.querySelectorAll('.of-group:not([hidden])')].map(d => d.dataset.g)"
        )
        assert {group.split("/")[1] for group in groups} == {option}
        pressed = opened.find_element("css selector", "#verdict button[data-g][aria-pressed=true]")
        assert pressed.text.split(" · ")[1] == option


def test_four_screens_and_the_rest_folded(opened):
    opened.execute_script("for (const d of document.querySelectorAll('details')) d.open = false")
    metrics = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert opened.execute_script("return document.documentElement.scrollHeight") <= 4 * 900
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_formula_opens_on_demand(opened):
    why = opened.find_element("css selector", "#summary .of-group:not([hidden]) .why")
    opened.execute_script("arguments[0].click()", why)
    shown = opened.find_element("id", why.get_attribute("popovertarget"))
    assert shown.is_displayed() and "status ok" in shown.text
    opened.execute_script("arguments[0].hidePopover()", shown)
    assert not shown.is_displayed()


def test_hover_names_the_method_and_its_share(opened):
    chart = drawn(opened, "cdf-chart")
    opened.execute_script("Plotly.Fx.hover(arguments[0], [{curveNumber: 0, pointNumber: 3}])", chart)
    time.sleep(0.3)
    texts = [t.text for t in chart.find_elements("css selector", ".hoverlayer text")]
    assert any("%" in text and "up to" in text for text in texts)


def test_the_log_axis_goes_on_and_off(opened):
    chart = drawn(opened, "cdf-chart")
    button = opened.find_element("css selector", "button.log[data-for=cdf-chart]")
    if button.get_attribute("aria-pressed") == "true":
        opened.execute_script("arguments[0].click()", button)
    for kind, pressed in (("log", "true"), ("linear", "false")):
        opened.execute_script("arguments[0].click()", button)
        assert opened.execute_script("return arguments[0]._fullLayout.xaxis.type", chart) == kind
        assert button.get_attribute("aria-pressed") == pressed
    low, high = opened.execute_script("return charts.cdf[selection.group].linear")
    assert low == 0 and high > CRITERION.threshold
    assert opened.execute_script("return arguments[0]._fullLayout.xaxis.range", chart) == [low, high]


def test_the_log_axis_stays_when_another_group_is_chosen_and_chooses_none(opened):
    drawn(opened, "cdf-chart")
    log = opened.find_element("css selector", "button.log[data-for=cdf-chart]")
    if log.get_attribute("aria-pressed") == "false":
        opened.execute_script("arguments[0].click()", log)
    first = opened.execute_script("return selection.group")
    for button in opened.find_elements("css selector", "#verdict button[data-g]"):
        opened.execute_script("arguments[0].click()", button)
        chosen = button.get_attribute("data-g")
        assert opened.execute_script("return selection.group") == chosen
        assert log.get_attribute("aria-pressed") == "true"
        pressed = opened.find_elements("css selector", "#verdict button[data-g][aria-pressed=true]")
        assert [other.get_attribute("data-g") for other in pressed] == [chosen]
        for _ in range(2):
            opened.execute_script("arguments[0].click()", log)
        assert opened.execute_script("return selection.group") == chosen
    opened.execute_script(f"document.querySelector('#verdict button[data-g=\"{first}\"]').click()")
    opened.execute_script("arguments[0].click()", log)


def test_the_pairs_turn_by_pointer_and_by_keys(opened):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    canvases = opened.find_elements("css selector", "#viewer canvas")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvases[0])
    before = [pixels(opened, c) for c in canvases]
    assert len(set(before)) == 3
    ActionChains(opened).move_to_element(canvases[1]).click_and_hold().move_by_offset(60, 25).release().perform()
    time.sleep(0.3)
    turned = [pixels(opened, c) for c in canvases]
    assert all(a != b for a, b in zip(before, turned, strict=True))
    canvases[0].send_keys(Keys.ARROW_LEFT)
    time.sleep(0.3)
    assert all(a != b for a, b in zip(turned, [pixels(opened, c) for c in canvases], strict=True))
    command = opened.find_element("css selector", "#viewer [data-show=command]").text
    assert command.startswith("python bench.py --methods") and "--conditions noisy" in command


def test_another_method_shows_its_own_pairs(opened):
    from selenium.webdriver.support.ui import Select

    method, pair = (
        Select(opened.find_element("css selector", f"#viewer select[name={n}]")) for n in ("method", "pair")
    )
    assert {option.text for option in method.options} == {"deepgmr", "fgr+icp", HOSTILE}
    canvas = opened.find_elements("css selector", "#viewer canvas")[1]
    method.select_by_visible_text("deepgmr")
    first = pixels(opened, canvas)
    method.select_by_visible_text(HOSTILE)
    assert pixels(opened, canvas) != first and len(pair.options) >= 1
    assert "alert(1)" in opened.find_element("css selector", "#viewer [data-show=command]").text


def test_dark_and_light(opened):
    def colours():
        return opened.execute_script(
            "const s = getComputedStyle(document.body), chart = document.getElementById('cdf-chart');"
            "return [s.backgroundColor, s.color, chart._fullLayout.font.color]"
        )

    drawn(opened, "cdf-chart")
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        time.sleep(0.3)
        page_colour, text, chart = colours()
        brightness = [sum(map(int, c.strip("rgba()").split(",")[:3])) for c in (page_colour, text, chart)]
        assert (brightness[0] > 600) == (scheme == "light")
        assert (brightness[1] < 300) == (scheme == "light") and (brightness[2] < 300) == (scheme == "light")
    opened.execute_script("document.getElementById('theme').click()")
    time.sleep(0.3)
    assert colours()[0] == "rgb(245, 245, 243)"


def test_on_a_phone_nothing_but_tables_is_wider_than_the_window(opened):
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    drawn(opened, "pareto-chart")
    time.sleep(0.5)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= 391
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [390, 700, 1000, 1300])
def test_the_list_of_methods_is_in_the_window_and_scrolls_downwards_only(opened, width):
    """Also with sixty methods; the toolbar breaks at some of the widths."""
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    left, right, wide, inner = opened.execute_script("""
        const details = document.querySelector("details.choose"), list = details.querySelector("div");
        const row = list.querySelector("label");
        details.open = true;
        const added = Array.from({ length: 60 }, () => list.appendChild(row.cloneNode(true)));
        const { left, right } = list.getBoundingClientRect(), found = [left, right, list.scrollWidth, list.clientWidth];
        added.forEach(label => label.remove());
        details.open = false;
        return found;""")
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert left >= 0 and right <= width and wide <= inner


def test_of_many_points_each_name_is_beside_its_own_point_or_joined_to_it(opened):
    """Thirty points of three heights; those of other methods than the best have a name where there is room."""
    chart = drawn(opened, "pareto-chart")
    names, count, unclear = opened.execute_script(
        """
        const div = arguments[0], { xaxis, yaxis } = div._fullLayout, before = div.layout.annotations;
        const trace = div.data.find(t => t.meta);
        const [low, high] = xaxis.range.map(v => 10 ** v), best = div.data.filter(t => t.meta);
        const many = Array.from({ length: 30 }, (_, i) => ({ ...trace, meta: "m" + i, name: "method " + i,
          x: [low * (high / low) ** (0.1 + 0.026 * i)], y: [[0.9, 0.5, 0.5][i % 3]] }));
        placeLabels(div, [...best, ...many]);
        const at = [...best, ...many].map(t => [xaxis.d2p(t.x[0]), yaxis.d2p(t.y[0]), t.name]), texts = div.layout.annotations;
        const centre = a => [xaxis.d2p(10 ** a.x) + (a.xshift || 0), yaxis.d2p(a.y) - (a.yshift || 0)];
        const wrong = texts.filter(a => !a.showarrow).filter(a => {
          const [x, y] = centre(a), half = a.text.length * 11 * 0.28;
          const gap = p => Math.hypot(Math.max(0, Math.abs(p[0] - x) - half), Math.max(0, Math.abs(p[1] - y) - 6.5));
          return Math.min(...at.map(gap)) < gap(at.find(p => p[2] === a.text)) - 1.5;
        });
        Plotly.relayout(div, { annotations: before });
        return [texts.map(a => a.text), best.length, wrong.map(a => a.text)];""",
        chart,
    )
    assert unclear == [] and len(names) == len(set(names)) > count


def test_it_prints_with_all_charts(opened):
    pdf = opened.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(pdf) > 100_000
    missing = opened.execute_script(
        "return [...document.querySelectorAll('.chart')].filter(c => !c.querySelector('.main-svg')).length"
    )
    assert missing == 0


def test_no_error_and_no_request_to_the_end(opened):
    assert [e for e in opened.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
    events = [json.loads(e["message"])["message"] for e in opened.get_log("performance")]
    requests = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)
    page = opened.current_url.split("#")[0]
    figures = page.rsplit("/", 1)[0] + "/figures/"
    others = [url for url in requests if url.startswith("file:") and url.split("#")[0] != page]
    assert all(url.startswith(figures) and url.endswith(".png") for url in others)


def test_the_worst_pair_shows_the_command_of_its_run(opened):
    shown = opened.execute_script("return document.querySelector('[data-show=show]').textContent")
    problem = opened.execute_script("return document.querySelector('[data-show=problem]').textContent")
    assert shown == f"python bench.py show mine {problem}"


def test_a_page_copied_alone_works_and_says_what_is_missing(opened, tmp_path):
    page = Path(unquote(urlparse(opened.current_url).path))
    opened.get(Path(shutil.copy(page, tmp_path)).as_uri())
    opened.execute_script("document.getElementById('figures').open = true")
    opened.execute_script("for (const i of document.querySelectorAll('#figures img')) i.loading = 'eager'")
    drawn(opened, "cdf-chart")
    missing = opened.find_elements("css selector", "#figures .missing")
    assert missing and not opened.find_elements("css selector", "#figures figure:not([hidden]) img")
    faults = [e for e in opened.get_log("browser") if "TypeError" in e["message"]]
    assert faults == []
    text = missing[0].get_attribute("textContent")
    assert text.startswith("figures/") and text.endswith("is not beside this page: copy the folder figures with it.")


def test_every_number_of_a_chart_survives_the_way(tmp_path):
    """JSON in the page holds no NaN and cannot end its element."""
    text = script_json({"a": [1.5, None], "b": "</script><script>"})
    assert "<" not in text and json.loads(text) == {"a": [1.5, None], "b": "</script><script>"}
