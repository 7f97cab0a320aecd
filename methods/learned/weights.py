"""Weight files: safetensors with configuration and provenance inside. Pickles are refused because they can run code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import InputError
from common.files import write_atomically
from methods.core.base import Unavailable

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS_FOLDER = Path(__file__).resolve().parents[1] / "weights"
"""Folder of the weight files that come with the benchmark."""
FALLBACK_DATA_SET = "shapes40"
"""Data set whose weights serve a domain without weights for its own data set."""
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
"""Environment in which glibc keeps large buffers. By default it returns and faults in each one, half of a step's time."""
PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin", ".t7"}
"""File suffixes of pickles."""


@dataclass(frozen=True)
class Card:
    """Metadata of a weight file.

    Attributes:
        method: the method it belongs to.
        config: the network's configuration, every field of its config dataclass.
        provenance: dataset, dataset_categories, categories (trained on), condition, points, sampler, seed, steps, command,
            seconds, validation.
    """

    method: str
    config: dict[str, Any]
    provenance: dict[str, Any] = field(default_factory=dict)


def save(file: Path, tensors: dict[str, Tensor], card: Card) -> None:
    """Write weights and card atomically.

    Matrices are rounded to float16 (11 bits), which halves the file; training in bfloat16 used 8 bits. Other tensors (biases,
    batch norms) keep their precision.
    """
    from safetensors.torch import save as serialized

    file.parent.mkdir(parents=True, exist_ok=True)
    stored = {k: (v.half() if v.ndim > 1 else v).contiguous() for k, v in tensors.items()}
    # not `save_file`, which restricts the file's permissions to its owner
    write_atomically(file, serialized(stored, {"card": json.dumps(asdict(card))}))


def read_card(file: Path) -> Card:
    """Read the card of a weight file; only the file's header is read.

    Raises:
        InputError: the file is missing, a pickle, not safetensors, or without a card.
    """
    from safetensors import SafetensorError, safe_open

    _refuse_pickle(file)
    try:
        with safe_open(file, framework="numpy") as handle:
            stored = (handle.metadata() or {}).get("card")
    except FileNotFoundError as error:
        raise InputError(f"{file}: no such weight file; `bench.py train` writes one") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a whole safetensors file ({error}); train or copy it again") from error
    if stored is None:
        raise InputError(f"{file}: metadata field 'card' is missing; use a file written by `bench.py train`")
    return Card(**json.loads(stored))


def _refuse_pickle(file: Path) -> None:
    if file.suffix in PICKLES:
        raise InputError(
            f"{file}: a pickle can run code when it is loaded, so only .safetensors is read; convert it in a sandbox: "
            f"python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('{file.name}', "
            f"weights_only=True), '{file.stem}.safetensors')\""
        )


def read_tensors(file: Path, wanted: dict[str, Tensor], whole: bool = True) -> dict[str, Tensor]:
    """Read the tensors of a weight file and compare names and shapes with a network's `state_dict`.

    Args:
        file: safetensors.
        wanted: the network's `state_dict`.
        whole: whether every tensor of the network must be in the file; otherwise the file may cover a part of it.

    Raises:
        InputError: a tensor is missing, unknown, or of another shape: names the file, the tensor and both shapes.
    """
    from safetensors.torch import load_file

    stored = {
        name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in load_file(file).items()
    }
    for name in sorted(stored.keys() | (wanted.keys() if whole else set())):
        have = tuple(stored[name].shape) if name in stored else "missing"
        want = tuple(wanted[name].shape) if name in wanted else "no such tensor"
        if have != want:
            raise InputError(f"{file}: tensor '{name}' is {have}, the network wants {want}; use weights trained for it")
    return stored


def choose(method: str, domain: str, training: str, folder: Path, sampler: str = "axis_angle") -> Path:
    """Choose the weight file for a domain.

    Candidates are the method's files trained on rotations of `sampler` under the condition `training`; or under `unseen`
    (noisy, on the first categories) where `training` is noisy or the domain is limited to categories. Files trained on
    the domain's data set are preferred to those trained on `shapes40`, then those trained on more categories. For a domain such
    as `modelnet40/first20`, only files trained within the first 20 categories, alphabetically, are candidates.

    Args:
        method: the name under which the method is trained.
        domain: such as `modelnet40` or `modelnet40/first20`.
        training: condition the weights were trained under.
        folder: of the weight files.
        sampler: of the true rotations the weights were trained on.

    Raises:
        Unavailable: there is no candidate; names the command that trains one.
    """
    dataset, _, part = domain.partition("/")
    conditions = {training, "unseen"} if training == "noisy" or part else {training}
    candidates = []
    for file, card in available(method, sampler, folder).items():
        own = card["dataset"] == dataset
        known = own or card["dataset"] == FALLBACK_DATA_SET
        if known and card["condition"] in conditions and _within_first(card, part):
            candidates.append((own, len(card["categories"]), file))
    if not candidates:
        command = training_command(method, dataset, "unseen" if part else training, sampler)
        raise Unavailable(f"no weights of {method} for {domain} in {folder.name}/; train them: {command}")
    return max(candidates, key=lambda entry: entry[:2])[2]


def available(method: str, sampler: str, folder: Path) -> dict[Path, dict[str, Any]]:
    """Return file to provenance, for every weight file of a method that was trained on rotations of a sampler."""
    cards = {file: read_card(file) for file in sorted(folder.glob("*.safetensors"))}
    return {f: c.provenance for f, c in cards.items() if c.method == method and c.provenance["sampler"] == sampler}


def training_command(method: str, dataset: str, condition: str, sampler: str) -> str:
    """Return the command that trains weights."""
    option = "" if sampler == "axis_angle" else f" --sampler {sampler}"
    return f"bench.py train {method} --dataset {dataset} --condition {condition}{option}"


def _within_first(provenance: dict[str, Any], part: str) -> bool:
    """Return whether weights were trained on the first n categories only, if `part` is `firstn`; True if it is empty."""
    if not part:
        return True
    first = sorted(provenance["dataset_categories"])[: int(part.removeprefix("first"))]
    return set(provenance["categories"]) <= set(first)


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file's bytes, 64 hex digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
