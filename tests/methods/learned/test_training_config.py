"""Presets and options of a training run."""

from __future__ import annotations

import argparse

import pytest

from common.errors import InputError
from methods.learned.training_config import add_arguments, command_of, settings_of


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def test_presets_and_options() -> None:
    assert settings_of(parsed("deepgmr", "--preset", "smoke")).steps == 20
    paper = settings_of(parsed("deepgmr", "--preset", "paper", "--points", "512", "1024"))
    assert (paper.batch, paper.points, paper.schedule) == (32, (512, 1024), "plateau")
    again = settings_of(parsed(*command_of(paper).removeprefix("bench.py train ").split()))
    assert again == paper


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("deepgmr", "--steps", "0"), "--steps 0: must be above 0"),
        (("deepgmr", "--points", "512", "-1"), "--points -1"),
        (("deepgmr", "--lr", "0"), "--lr 0"),
        (("deepgmr", "--validate-every", "-3"), "--validate-every -3"),
    ],
)
def test_bad_options(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_of(parsed(*words))
