"""Weight files of untrained networks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from methods.learned.weights import Card, save


def provenance(sampler: str = "axis_angle", dataset: str = "shapes40") -> dict[str, Any]:
    """Return the provenance of weights trained on two categories."""
    categories = ["bed", "cup"]
    return {
        "dataset": dataset,
        "condition": "noisy",
        "sampler": sampler,
        "categories": categories,
        "dataset_categories": categories,
    }


def write_weights(file: Path, net: torch.nn.Module, method: str, **changes: Any) -> Path:
    """Write the weight file of an untrained network."""
    save(file, net.state_dict(), Card(method, asdict(net.config), provenance(**changes)))  # type: ignore[call-overload]
    return file
