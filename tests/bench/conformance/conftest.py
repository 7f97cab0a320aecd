"""Plug-in folder of faulty methods."""

import pytest

from tests.bench.conformance.faulty_methods import EXPECTED, FAULTY


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.py").write_text(
        f"HOWS = {[*EXPECTED, 'exits', 'endless', 'fine']}\n".replace("'nodoc', 'noinit', ", "") + FAULTY
    )
    return folder
