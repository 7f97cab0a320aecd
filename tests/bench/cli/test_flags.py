"""The flags of every command, whose names, types and defaults scripts and configuration files depend on."""

import argparse
from pathlib import Path

import pytest

from bench.cli.main import ROOT, _parser
from common.errors import InputError

PINNED = Path(__file__).with_name("flags.txt")
"""A line for each flag of each command, see `flags_of`."""
OF_THE_MACHINE = ("jobs",)
"""Flags whose default depends on the machine."""


def flags_of():
    """Return each command with its handler, and each flag with what differs from argparse's defaults."""
    lines = []
    for command, parser in _parser(train=True)[1].items():
        lines.append(f"{command} -> {parser.get_default('handler').__name__}")
        for action in parser._actions:
            if isinstance(action, argparse._HelpAction):
                continue
            name = "|".join(action.option_strings) or action.dest
            facts = {"nargs": action.nargs, "dest": action.dest if action.option_strings else None}
            facts["type"] = getattr(action.type, "__name__", None)
            facts["choices"] = None if action.choices is None else ",".join(action.choices)
            facts["default"] = None if action.dest in OF_THE_MACHINE else action.default
            facts["const"] = getattr(action, "const", None)
            if isinstance(facts["default"], Path) and facts["default"].is_absolute():
                facts["default"] = facts["default"].relative_to(ROOT)
            required = "required" if action.required and action.option_strings else ""
            shown = [f"{key}={value}" for key, value in facts.items() if value not in (None, name.lstrip("-"))]
            lines.append(" ".join(filter(None, [command, name, required, *shown])))
    return lines


def test_every_flag_is_as_it_was():
    assert flags_of() == PINNED.read_text(encoding="utf-8").splitlines()


def test_what_is_no_choice_is_refused():
    parser = _parser(train=True)[0]
    for words in ("run --backend spark", "run --against nobody", "report r --width wide", "draw svd r p"):
        with pytest.raises(InputError):
            parser.parse_args(words.split())
    for words in ("train deepgmr --precision int8", "train deepgmr --preset large"):
        with pytest.raises(InputError):
            parser.parse_args(words.split())
