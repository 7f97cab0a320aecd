"""The HTML page as text; tests/browser opens it in a browser."""

import re

from bench.evaluation.conventions import CONVENTIONS
from tests.bench.synthetic_run import HOSTILE

CRITERION = CONVENTIONS["deepgmr"]


FEW = ("deepgmr", "fgr+icp", "identity", HOSTILE)


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
