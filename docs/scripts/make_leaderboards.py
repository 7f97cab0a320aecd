"""Publish the runs of the repository, and draw docs/leaderboards.png, the page as Chromium shows it.

    python -m docs.scripts.make_leaderboards [SITE]

writes the site into the folder SITE, by default build/site/results. The picture is drawn only if `chromium` is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image

from bench.planning.catalog import Catalog
from bench.report import site

ROOT = Path(__file__).resolve().parents[2]
RUNS = ("reference", "reference-scans")
SIZE = "1280,860"


def draw(page: Path, picture: Path) -> None:
    """Write a picture of the top of a page, as a browser shows it."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
    command = ["chromium", *flags, f"--screenshot={picture}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True)
    Image.open(picture).convert("RGB").quantize(64).save(picture, optimize=True)


def main(folder: Path) -> None:
    """Write the site, and the picture if a browser is there."""
    written = site.publish([ROOT / "results" / name for name in RUNS], folder, Catalog.of())
    print(f"{written[0]}: {sum(file.stat().st_size for file in written) / 1e6:.1f} MB")
    if shutil.which("chromium"):
        draw(written[0], ROOT / "docs" / "leaderboards.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site" / "results")
