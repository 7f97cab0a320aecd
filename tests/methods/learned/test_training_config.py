"""Presets and options of a training run."""

from __future__ import annotations

import argparse
from pathlib import Path

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


OTHER = {
    "method": "dcp",
    "preset": "smoke",
    "dataset": "rooms",
    "condition": "clean",
    "sampler": "euler45",
    "seed": 7,
    "steps": 8,
    "batch": 9,
    "points": (10, 11),
    "lr": 0.5,
    "validate_every": 12,
    "precision": "float32",
    "device": "cpu",
    "threads": 13,
    "name": "other",
    "start": "first.safetensors",
    "checkpoints": Path("kept"),
    "weights": Path("final"),
}
"""Another value of each option."""


@pytest.mark.parametrize("name", OTHER)
def test_every_option_reaches_the_settings_and_the_command_that_repeats_a_run(name: str) -> None:
    words = ["dcp" if name == "method" else "deepgmr"]
    if name != "method":
        value = OTHER[name]
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
    options = parsed(*words)
    settings = settings_of(options)
    assert getattr(settings if hasattr(settings, name) else options, name) == OTHER[name]
    assert settings_of(parsed(*command_of(settings).removeprefix("bench.py train ").split())) == settings
