"""Settings of a training run: presets, command-line options, and the command that repeats a run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from common.devices import resolve_flag
from common.errors import InputError
from common.keys import check_seed
from methods.learned.weights import WEIGHTS_FOLDER


@dataclass(frozen=True)
class Settings:
    """Settings of a training run.

    Attributes:
        points: sizes of clouds, trained in this order for an equal share of the steps each; validation uses the last.
        lr: highest learning rate.
        schedule: "onecycle" (AdamW, up to `lr` and down again) or "plateau" (Adam, the rate halved after 10 validations
            without a lower loss).
        clip: largest norm of the gradient.
        validate_every: steps between validations.
        validation: number of validation problems.
        start: weight file of the initial weights; those of a network that is a part of this one initialise that part.
        name: of the files; by default METHOD_DATASET_CONDITION.
    """

    method: str
    preset: str = "cpu"
    dataset: str = "shapes40"
    condition: str = "noisy"
    sampler: str = "axis_angle"
    seed: int = 0
    steps: int = 3000
    batch: int = 16
    points: tuple[int, ...] = (512, 1024)
    lr: float = 2e-3
    schedule: str = "onecycle"
    clip: float = 1.0
    validate_every: int = 100
    validation: int = 64
    precision: str = "bfloat16"
    device: str = "cpu"
    threads: int = 1
    name: str = ""
    start: str = ""
    data: str = ""

    @property
    def title(self) -> str:
        """The name of the run's files."""
        method = self.method if self.sampler == Settings.sampler else f"{self.method}_{self.sampler}"
        return self.name or f"{method}_{self.dataset}_{self.condition}"


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"steps": 20, "batch": 2, "points": (128,), "validate_every": 10, "validation": 4},
    "cpu": {},
    "paper": {
        "steps": 29_300,  # 100 epochs of ModelNet40's train split without the held-out part, in batches of 32
        "batch": 32,
        "points": (1024,),
        "lr": 1e-3,
        "schedule": "plateau",
        "validate_every": 293,
        "validation": 256,
    },
}
"""Settings by the name of `--preset`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `bench.py train`; omitted ones come from the preset."""
    parser.add_argument("method", help="a learned method, such as deepgmr")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="cpu", help="settings to start from")
    parser.add_argument("--dataset", default=Settings.dataset)
    parser.add_argument(
        "--condition", default=Settings.condition, help="`unseen` trains on the first half of the categories"
    )
    parser.add_argument("--data", help="folder with one folder a data set; default $BENCH_DATA or ./data")
    parser.add_argument("--sampler", help="of the true rotations")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int, help="pairs per step")
    parser.add_argument(
        "--points", type=int, nargs="+", help="sizes of clouds, each for an equal share of the steps, in turn"
    )
    parser.add_argument("--lr", type=float, help="highest learning rate")
    parser.add_argument("--validate-every", type=int, help="steps between validations")
    parser.add_argument("--precision", choices=["bfloat16", "float32"])
    parser.add_argument("--device", type=resolve_flag, help="cpu, cuda or cuda:NUMBER; auto: a GPU if there is one")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--name", help="of the weight file and the checkpoint; default METHOD_DATASET_CONDITION")
    parser.add_argument(
        "--start",
        help="weight file of the initial weights, of this method or of one that is a part of it; default: random weights",
    )
    parser.add_argument(
        "--checkpoints", type=Path, default=Path("checkpoints"), help="folder; a run found there is resumed"
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS_FOLDER, help="folder for the finished weights")


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings of parsed options, over those of their preset.

    Raises:
        InputError: a count or rate is not positive.
    """
    names = {f.name for f in fields(Settings)}
    given = {k: v for k, v in vars(options).items() if k in names and v is not None}
    if "points" in given:
        given["points"] = tuple(given["points"])
    settings = Settings(**{**PRESETS[options.preset], **given})
    for name in ("steps", "batch", "lr", "validate_every", "threads"):
        if getattr(settings, name) <= 0:
            raise InputError(f"--{name.replace('_', '-')} {getattr(settings, name)}: must be above 0")
    check_seed(settings.seed)
    if min(settings.points) <= 0:
        raise InputError(f"--points {min(settings.points)}: must be above 0")
    return settings


def command_of(settings: Settings) -> str:
    """Return the command that repeats a run: its differences from the preset, with the data folder as `$BENCH_DATA`."""
    words = [f"bench.py train {settings.method}"]
    preset = asdict(Settings(settings.method, **PRESETS[settings.preset]))
    always = {"dataset", "condition", "seed", "steps"}
    for name, value in asdict(settings).items():
        if name in always or (value != preset[name] and name not in ("data", "preset")):
            text = " ".join(map(str, value)) if isinstance(value, tuple) else value
            words.append(f"--{name.replace('_', '-')} {text}")
    return " ".join([*words, f"--preset {settings.preset}", *(["--data $BENCH_DATA"] if settings.data else [])])
