"""The page of a pair in a real browser: it opens offline, draws the clouds, and its buttons open and close views."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.pair import clouds, page
from bench.pair.files import write_ply
from bench.pair.register import Registration
from bench.pair.result import evaluate
from common.keys import rng
from methods.base import rigid
from tests.browser.test_page import browser, pytestmark  # noqa: F401  # skipped for the same reasons

BAD = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    cloud = rng("page").normal(size=(800, 3)) * (1.0, 0.5, 0.2)
    T = rigid(Rotation.from_rotvec((0.3, 0.2, -0.5)).as_matrix(), np.array([5.0, 0.0, 1.0]))
    write_ply(folder / "a.ply", cloud)
    write_ply(folder / "b.ply", cloud @ T[:3, :3].T + T[:3, 3])
    scans = clouds.open_scans((folder / "a.ply", folder / "b.ply"), 500, None)
    registrations = [
        Registration(name, "global", name, "ok", 12.0, pose, "") for name, pose in {"fine": T, "off": np.eye(4)}.items()
    ]
    registrations.append(Registration("lost", "global", "lost", "crash", float("nan"), None, BAD))
    (folder / "report.html").write_text(page.render(evaluate(scans, registrations, T)), encoding="utf-8")
    driver = browser()
    driver.get((folder / "report.html").as_uri())
    yield driver
    driver.quit()


def views(driver):
    return [f.get_attribute("data-name") for f in driver.find_elements("css selector", "figure")]


def test_it_draws_without_requests(opened):
    assert views(opened) == ["input of the methods", "fine"]
    assert len(opened.find_elements("css selector", ".view .gl-container, .view canvas")) >= 2
    assert not [line for line in opened.get_log("browser") if line["level"] == "SEVERE"]
    requests = [
        line["message"] for line in opened.get_log("performance") if "Network.requestWillBeSent" in line["message"]
    ]
    assert not [message for message in requests if '"url":"http' in message]


def test_buttons_open_and_close_views(opened):
    button = next(b for b in opened.find_elements("css selector", "#choice button") if b.text == "off")
    button.click()
    assert views(opened)[-1] == "off" and button.get_attribute("aria-pressed") == "true"
    button.click()
    assert "off" not in views(opened)


def test_moved_points_lie_on_the_target(opened):
    far = opened.execute_script(
        "const m = moved(data.poses.fine), t = data.target; let far = 0;"
        "for (let i = 0; i < m[0].length; i++) { let best = 1e9;"
        "for (let j = 0; j < t[0].length; j++) best = Math.min(best, Math.hypot(...[0, 1, 2].map(k => m[k][i] - t[k][j])));"
        "far = Math.max(far, best); } return far;"
    )
    assert far < 1.0


def test_text_is_escaped(opened):
    assert BAD in opened.find_element("css selector", "table").text
