"""Weight files: safetensors with the configuration and the provenance inside. Pickles are refused, they can run code."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin", ".t7"}


@dataclass(frozen=True)
class Card:
    """What a weight file says of itself.

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
    """Write weights and card; the file appears whole or not at all."""
    from safetensors.torch import save_file

    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    save_file({k: v.contiguous() for k, v in tensors.items()}, partial, metadata={"card": json.dumps(asdict(card))})
    partial.replace(file)


def read_card(file: Path) -> Card:
    """The card of a weight file; only its header is read.

    Raises:
        InputError: missing, a pickle, not safetensors, or without a card.
    """
    from safetensors import SafetensorError, safe_open

    _refuse_pickle(file)
    try:
        with safe_open(file, framework="pt") as handle:
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
            f"{file}: a pickle can run code when it is loaded, so only .safetensors is read; convert it where nothing can be "
            f"harmed: python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('{file.name}', "
            f"weights_only=True), '{file.stem}.safetensors')\""
        )


def read_tensors(file: Path, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a weight file, checked against those of a network (its `state_dict`).

    Raises:
        InputError: a tensor is missing, unknown, or of another shape: names the file, the tensor and both shapes.
    """
    from safetensors.torch import load_file

    found = load_file(file)
    for name in sorted(wanted.keys() | found.keys()):
        have = tuple(found[name].shape) if name in found else "missing"
        want = tuple(wanted[name].shape) if name in wanted else "no such tensor"
        if have != want:
            raise InputError(f"{file}: tensor '{name}' is {have}, the network wants {want}; use weights trained for it")
    return found
