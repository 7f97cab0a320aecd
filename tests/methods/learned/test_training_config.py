"""Presets and options of a training run."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from bench.isolation.guard import ROOT
from common.errors import InputError
from methods.learned.training_config import PRESETS, Settings, add_arguments, command_of, settings_of
from methods.learned.training_data import HOLD_EVERY
from methods.learned.weights import WEIGHTS_FOLDER, read_card


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


def test_presets_are_those_of_the_documentation() -> None:
    """An epoch is the train split of ModelNet40, 9 840 objects, without the held-out ones, in batches of 32."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    cpu, paper, smoke = (Settings("deepgmr", preset=name, **PRESETS[name]) for name in ("cpu", "paper", "smoke"))
    number = "{:.0e}".format
    sizes = f"N = {cpu.points[0]} for the first half of the steps and {cpu.points[1]} for the second"
    assert (
        f"AdamW, one cycle up to {number(cpu.lr).replace('e-0', 'e-')} and down, gradient clip {cpu.clip:g}, "
        f"{cpu.batch} pairs a step, {sizes}, {cpu.precision} |" in page
    )
    epochs = paper.steps / paper.validate_every
    assert (
        f"Adam {number(paper.lr).replace('e-0', 'e-')}, halved after 10 validations (epochs) without improvement, "
        f"{paper.batch} pairs of N = {paper.points[0]}, {epochs:g} epochs of ModelNet40" in page
    )
    assert paper.validate_every == -((HOLD_EVERY - 1) * 9840 // HOLD_EVERY // -paper.batch)
    assert f"| `smoke` | {smoke.steps} steps of {smoke.batch} pairs;" in page
    assert (cpu.schedule, paper.schedule, len(cpu.points), len(paper.points)) == ("onecycle", "plateau", 2, 1)
    assert (smoke.points, smoke.validate_every, smoke.validation) == ((128,), 10, 4)
    assert (cpu.steps, cpu.validate_every, cpu.validation, paper.validation) == (3000, 100, 64, 256)
    assert (cpu.seed, cpu.threads, cpu.device, cpu.sampler, cpu.dataset) == (0, 1, "cpu", "axis_angle", "shapes40")
    assert settings_of(parsed("deepgmr")) == Settings("deepgmr") == cpu
    for settings in (cpu, paper, smoke):
        always = f"--dataset shapes40 --condition noisy --seed 0 --steps {settings.steps}"
        assert command_of(settings) == f"bench.py train deepgmr {always} --preset {settings.preset}"


@pytest.mark.parametrize("file", sorted(WEIGHTS_FOLDER.glob("*.safetensors")), ids=lambda file: file.stem)
def test_the_command_on_the_card_of_our_weights_has_their_settings(file: Path) -> None:
    card = read_card(file)
    settings = settings_of(parsed(*card.provenance["command"].removeprefix("bench.py train ").split()))
    names = ("dataset", "condition", "points", "sampler", "seed", "steps", "batch", "precision")
    given = {name: getattr(settings, name) for name in names}
    assert {name: card.provenance[name] for name in names} == given | {"points": list(settings.points)}
    assert card.method == settings.method and command_of(settings) == card.provenance["command"]
    assert settings.title == file.stem


def test_folders_data_and_seeds_of_the_command_line() -> None:
    options = parsed("dcp", "--data", "mine", "--seed", "3", "--points", "9")
    assert (options.checkpoints, options.weights, options.preset) == (Path("checkpoints"), WEIGHTS_FOLDER, "cpu")
    assert settings_of(options) == Settings("dcp", seed=3, data="mine", points=(9,))
    assert command_of(settings_of(options)).endswith("--points 9 --preset cpu --data $BENCH_DATA")
    assert settings_of(parsed("dcp")).data == "" and "--data " not in command_of(Settings("dcp"))
    for words, says in (
        (("--seed", str(2**63)), "--seed: must fit"),
        (("--batch", "0"), "--batch 0: must be above 0"),
        (("--threads", "0"), "--threads 0: must"),
        (("--points", "0", "9"), "--points 0: must"),
    ):
        with pytest.raises(InputError, match=says):
            settings_of(parsed("dcp", *words))
    one = ("--steps", "--batch", "--threads", "--validate-every", "--points")
    assert settings_of(parsed("dcp", *(part for flag in one for part in (flag, "1")))).points == (1,)
    for words in (("--preset", "none"), ("--precision", "int8"), ("--lr", "x")):
        with pytest.raises(SystemExit):
            parsed("dcp", *words)


@pytest.mark.parametrize("sampler", ["axis_angle", "haar"])
@pytest.mark.parametrize("name", ["", "mine"])
def test_files_are_named_after_what_they_were_trained_on(sampler: str, name: str) -> None:
    settings = Settings("m", dataset="d", condition="c", sampler=sampler, name=name)
    assert settings.title == (name or ("m_d_c" if sampler == "axis_angle" else "m_haar_d_c"))
