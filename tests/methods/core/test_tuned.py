"""Tuned settings by name: those of a folder before the built-in ones, and what is written before both."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import InputError
from common.specs import Spec, parse
from methods.core import tuned
from methods.core.tuned import read_tuned, tuned_file, with_tuned


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings `a` and `b` of a method; built in are `a` and `c`."""
    own, mine = tmp_path / "own" / "tuned.toml", tmp_path / "mine" / "tuned.toml"
    own.parent.mkdir()
    mine.parent.mkdir()
    mine.write_text("[m.a]\nvalues = {x = 1}\n[m.b]\nvalues = {x = 2, y = 'z'}\n")
    own.write_text("[m.a]\nvalues = {x = 3}\n[m.c]\nvalues = {x = 4}\n[n.d]\nvalues = {}\n")
    monkeypatch.setattr(tuned, "BUILT_IN", own)
    return mine.parent


def test_settings_give_way_to_what_is_written_and_those_of_a_folder_come_first(folder: Path) -> None:
    assert with_tuned(parse("m[tuned=a]"), folder.parent).given == {"x": "3"}, "a folder need not have any"
    for text, plugins, given in (
        ("m[x=7]", folder, {"x": "7"}),
        ("m[tuned=a]", folder, {"x": "1"}),
        ("m[tuned=a]", None, {"x": "3"}),
        ("m[tuned=b]", folder, {"x": "2", "y": "z"}),
        ("m[tuned=b,y=w,v=5]", folder, {"x": "2", "y": "w", "v": "5"}),
        ("m[tuned=c]", folder, {"x": "4"}),
        ("n[tuned=d]", folder, {}),
    ):
        assert with_tuned(parse(text), plugins) == Spec(text[0], given), text
    spec = parse("m[x=7]")
    assert with_tuned(spec, folder) is spec
    for text, plugins, known in (("m[tuned=b]", None, "a, c"), ("o[tuned=a]", folder, "none")):
        with pytest.raises(InputError, match=rf"unknown tuned settings of {text[0]} .*known: {known}$"):
            with_tuned(parse(text), plugins)


def test_the_file_is_in_the_folder_or_built_in(tmp_path: Path) -> None:
    assert tuned_file(None) == tuned.BUILT_IN and tuned.BUILT_IN.is_file()
    assert tuned_file(tmp_path) == tmp_path / "tuned.toml" and read_tuned(tmp_path / "tuned.toml") == {}


@pytest.mark.parametrize("text", ["[m", "m = 3", "[m.a]\nx = 1", "[m.a]\nvalues = 3", "[m]\na = 5"])
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tuned.toml").write_text(text)
    with pytest.raises(InputError, match=r"tuned\.toml: (not TOML|\[m\.a?\] has no table 'values'; fix it)"):
        read_tuned(tmp_path / "tuned.toml")
