"""Weight files: safetensors with the configuration and the provenance inside. Pickles are refused, they can run code."""

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

EMBEDDED = "shapes40"
"""The data set whose weights serve a domain that has none of its own."""
# glibc gives every large buffer back to the kernel and faults it in again: half of a step's time, unless told not to.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
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
    """Write weights and card; the file appears whole or not at all.

    Matrices are rounded to float16, eleven bits, which halves the file; training in bfloat16 knew only eight. What stands
    beside them (biases, batch norms) stays as it is.
    """
    from safetensors.torch import save as serialized

    file.parent.mkdir(parents=True, exist_ok=True)
    stored = {k: (v.half() if v.ndim > 1 else v).contiguous() for k, v in tensors.items()}
    # Only the owner could read a file written by safetensors' own save_file.
    write_atomically(file, serialized(stored, {"card": json.dumps(asdict(card))}))


def read_card(file: Path) -> Card:
    """The card of a weight file; only its header is read.

    Raises:
        InputError: missing, a pickle, not safetensors, or without a card.
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
            f"{file}: a pickle can run code when it is loaded, so only .safetensors is read; convert it where nothing can be "
            f"harmed: python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('{file.name}', "
            f"weights_only=True), '{file.stem}.safetensors')\""
        )


def read_tensors(file: Path, wanted: dict[str, Tensor], whole: bool = True) -> dict[str, Tensor]:
    """The tensors of a weight file, checked against those of a network (its `state_dict`).

    Args:
        file: safetensors.
        wanted: the network's.
        whole: whether the file has to have all of them; if not, it may be of a part of the network.

    Raises:
        InputError: a tensor is missing, unknown, or of another shape: names the file, the tensor and both shapes.
    """
    from safetensors.torch import load_file

    found = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in load_file(file).items()}
    for name in sorted(found.keys() | (wanted.keys() if whole else set())):
        have = tuple(found[name].shape) if name in found else "missing"
        want = tuple(wanted[name].shape) if name in wanted else "no such tensor"
        if have != want:
            raise InputError(f"{file}: tensor '{name}' is {have}, the network wants {want}; use weights trained for it")
    return found


def choose(method: str, domain: str, training: str, folder: Path, sampler: str = "axis_angle") -> Path:
    """The weight file for a domain such as `modelnet40` or `modelnet40/first20` (objects of the other categories).

    Of a method's files trained on rotations of `sampler` under the condition `training` (or `unseen`, which is noisy on the
    first categories; where the domain says `firstn` it is the only one that keeps to them), those of the domain's own data
    set come first, then those of `shapes40`; the one that has seen the most categories, but none beyond the first n
    (alphabetically) where the domain says `firstn`.

    Raises:
        Unavailable: there is none; names the command that trains it.
    """
    dataset, _, part = domain.partition("/")
    conditions = {training, "unseen"} if training == "noisy" or part else {training}
    fitting = []
    for file, told in available(method, sampler, folder).items():
        own = told["dataset"] == dataset
        if told["condition"] in conditions and _allowed(told, part) and (own or told["dataset"] == EMBEDDED):
            fitting.append((own, len(told["categories"]), file))
    if not fitting:
        made = command(method, dataset, "unseen" if part else training, sampler)
        raise Unavailable(f"no weights of {method} for {domain} in {folder.name}/; train them: {made}")
    return max(fitting, key=lambda entry: entry[:2])[2]


def available(method: str, sampler: str, folder: Path) -> dict[Path, dict[str, Any]]:
    """File to provenance, of every weight file of a method that was trained on rotations of a sampler."""
    cards = {file: read_card(file) for file in sorted(folder.glob("*.safetensors"))}
    return {f: c.provenance for f, c in cards.items() if c.method == method and c.provenance["sampler"] == sampler}


def command(method: str, dataset: str, condition: str, sampler: str) -> str:
    """The command that trains weights."""
    told = "" if sampler == "axis_angle" else f" --sampler {sampler}"
    return f"bench.py train {method} --dataset {dataset} --condition {condition}{told}"


def _allowed(provenance: dict[str, Any], part: str) -> bool:
    """Whether weights have seen only the first n categories, if `part` is `firstn`."""
    if not part:
        return True
    first = sorted(provenance["dataset_categories"])[: int(part.removeprefix("first"))]
    return set(provenance["categories"]) <= set(first)


def sha256(file: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
