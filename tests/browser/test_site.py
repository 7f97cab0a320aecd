"""The published site in a real browser, opened from the disk. Skipped with the reason where a browser is missing."""

import numpy as np
import pytest

from bench.planning.catalog import Catalog
from bench.report import site
from tests.bench.report.test_site import write_run
from tests.browser.test_page import browser, pytestmark  # noqa: F401

CONTRAST = """
const rgb = (text) => { const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  c.fillStyle = text; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
const background = (node) => { for (; node; node = node.parentElement) {
  const color = getComputedStyle(node).backgroundColor; if (rgb(color)[3] === 255) return rgb(color); } return [255, 255, 255]; };
const kinds = "a, p, th, td, label, h2, span, button";
const texts = [...document.querySelectorAll(kinds)].filter((e) => e.offsetParent);
return texts.map((e) => [e.tagName + " " + e.textContent.slice(0, 30), rgb(getComputedStyle(e).color), background(e)]);
"""
"""Colour of each text and of what is behind it."""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    runs = [write_run(place / "a", 0, verdict="verified"), write_run(place / "b", 1)]
    site.publish(runs, place / "site", Catalog.of())
    driver = browser()
    driver.get((place / "site" / "index.html").as_uri())
    yield driver
    driver.quit()


def luminance(color):
    c = np.array(color[:3]) / 255
    return np.where(c <= 0.03928, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast_and_narrow_windows_do_not_scroll_sideways(opened, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for width in (1400, 390):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
        pairs = opened.execute_script(CONTRAST)
        light = {text: sorted((luminance(a), luminance(b))) for text, a, b in pairs}
        assert len(light) > 20
        assert [text for text, (dark, bright) in light.items() if (bright + 0.05) / (dark + 0.05) < 4.5] == []


def test_controls_have_labels_and_tables_have_heads(opened):
    bare = "return [...document.querySelectorAll('select, input')].filter((e) => !e.labels.length).length"
    assert opened.execute_script(bare) == 0
    tables = opened.execute_script("""return [...document.querySelectorAll('table')].map((t) => [!!t.caption,
        [...t.tHead.rows[0].cells].every((c) => c.scope === 'col'),
        [...t.tBodies[0].rows].every((r) => r.cells[0].scope === 'row')])""")
    assert tables and all(all(table) for table in tables)


def shown(driver):
    return driver.execute_script(
        "return [...document.querySelectorAll('.board tbody tr')].filter((r) => r.offsetParent).length"
    )


def test_filters_order_and_the_way_to_a_pose(opened):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait

    def choose(name, text):
        Select(opened.find_element(By.NAME, name)).select_by_visible_text(text)

    assert shown(opened) == 6
    choose("task", "objects, noisy")
    assert shown(opened) == 3
    opened.find_element(By.NAME, "history").send_keys(Keys.SPACE)
    assert shown(opened) == 6
    choose("verified", "verified")
    assert shown(opened) == 3
    choose("kind", "local")
    assert shown(opened) == 1
    choose("budget", "10 ms")
    assert shown(opened) == 0 and "no row fits" in opened.find_element(By.ID, "count").text
    choose("budget", "any")
    choose("kind", "all")
    head = opened.find_elements(By.CSS_SELECTOR, "section:not([hidden]) th button")[0]
    head.send_keys(Keys.ENTER)
    rows = "[...document.querySelectorAll('section:not([hidden]) .board tbody tr')].filter((r) => r.offsetParent)"
    names = f"return {rows}.map((r) => r.cells[0].textContent)"
    assert opened.execute_script(names) == sorted(opened.execute_script(names))
    row = opened.execute_script(names)
    links = opened.find_elements(By.CSS_SELECTOR, "section:not([hidden]) tr:not([hidden]) td:nth-child(2) a")
    links[row.index("icp")].send_keys(Keys.ENTER)
    wait = WebDriverWait(opened, 20)
    wait.until(lambda d: d.find_elements(By.CSS_SELECTOR, ".trials tbody button"))
    assert "modelnet40/noisy/1024" in opened.find_element(By.CSS_SELECTOR, ".trials tbody td").text
    assert Select(opened.find_element(By.NAME, "method")).first_selected_option.text == "icp"
    opened.find_element(By.CSS_SELECTOR, ".trials tbody button").send_keys(Keys.ENTER)
    wait.until(lambda d: "0  0  0  1" in d.find_element(By.ID, "pose").text)
    logs = [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"]
    assert logs == []
