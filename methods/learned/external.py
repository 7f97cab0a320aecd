"""Base of the adapters of learned methods whose code and weights the user has: a clone of the authors' repository.

Clouds are in metres, as the methods were trained on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.text import counted
from methods.core.base import Method, NoSolution, Pose, Unavailable
from methods.geometry.compatibility import best_hypothesis, refined
from methods.geometry.features import nearest_rotation, unit_pair
from methods.geometry.fpfh import matches
from methods.learned.weights import sha256
from methods.sc2_pcr import Sc2Pcr

Points = NDArray[np.float64]
Described = tuple[Points, NDArray[np.float32]]
"""Points (K, 3) of a cloud, and their descriptors (K, D)."""
ROOT = Path(__file__).resolve().parents[2]
VOXEL = 0.025
"""Edge in metres of the cells to which clouds are thinned, as the authors thin 3DMatch."""


class ExternalMethod(Method):
    """Method that runs the authors' code from a clone of their repository, with their weights.

    Class attributes that a subclass sets:
        variable: start of the environment variables `…_FOLDER`, the clone, and `…_WEIGHTS`, the weight file.
        repository: address of the repository.
        files: files of the clone that the adapter uses, which show that it is one.
        packages: that the authors' code needs and that the repository tells how to install.
    """

    kind = "learned"
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    devices = ("cpu", "cuda")
    variable: ClassVar[str]
    repository: ClassVar[str]
    files: ClassVar[tuple[str, ...]]
    packages: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def check_available(cls) -> None:
        """Raise `Unavailable` with the command that gets what is missing: the clone or its weights."""
        folder, weights = cls.paths()
        remedy = (
            f"git clone {cls.repository}, get its weights, and set {cls.variable}_FOLDER and {cls.variable}_WEIGHTS"
        )
        if folder is None or weights is None:
            raise Unavailable(f"needs the authors' code and weights: {remedy}")
        for path in (*(folder / name for name in cls.files), weights):
            if not path.exists():
                raise Unavailable(f"{path} does not exist; {remedy}")
        for name in cls.packages:
            if importlib.util.find_spec(name) is None:
                raise Unavailable(f"package {name} is missing: install it as {cls.repository} describes")

    @classmethod
    def paths(cls) -> tuple[Path | None, Path | None]:
        """Return the clone and the weights that the environment variables name; None where one is not set."""
        given = (os.environ.get(f"{cls.variable}_{name}") for name in ("FOLDER", "WEIGHTS"))
        folder, weights = (Path(path).expanduser().resolve() if path else None for path in given)
        return folder, weights

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Import the authors' code and load the weights; see `Method.setup`."""
        self.check_available()
        folder, weights = self.paths()
        assert folder is not None and weights is not None
        self.state["device"] = device
        try:
            with importing_from(folder):
                self.load(folder, weights, device)
        except ImportError as reason:
            raise Unavailable(f"{reason}: install what {self.repository} needs") from reason
        files = [weights] if weights.is_file() else sorted(weights.rglob("*.pth"))
        self.note(sha256=" ".join(map(sha256, files)))

    @abstractmethod
    def load(self, folder: Path, weights: Path, device: str) -> None:
        """Put the model, ready for inference, and what else `register` needs into `self.state`."""

    def fitted(self, source: Described, target: Described, distance: float) -> Pose:
        """Return the pose (4, 4) of mutual matches of descriptors by SC²-PCR.

        Args:
            source: described points.
            target: described points.
            distance: maximum error of a correct match in metres.

        Raises:
            NoSolution: fewer than 3 matches, or none that agree.
        """
        with self.stage("matching"):
            rows = matches(source[1], target[1], mutual=True)
        self.note(matches=len(rows))
        if len(rows) < 3:
            raise NoSolution(f"{counted(len(rows), 'mutual match', 'mutual matches')}; a pose needs 3")
        solver = Sc2Pcr()
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), solver.limit)).astype(np.intp)]
        with self.stage("solve"):
            pair = unit_pair(source[0][rows[:, 0]], target[0][rows[:, 1]])  # type: ignore[arg-type]
            p, q, tolerance = pair.source, pair.target, distance / pair.scale
            T, inliers = refined(best_hypothesis(solver.hypotheses(p, q, tolerance), p, q, tolerance), p, q, tolerance)
        self.note(inliers=inliers, confidence=inliers / len(rows))
        return pair.to_original(T)


@contextlib.contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Let imports find the modules of a clone, even those with names of ours, and make it the current folder.

    The clone's modules are forgotten afterwards; what was imported from them stays usable.
    """
    names = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}

    def of_clone() -> dict[str, Any]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}

    ours = of_clone()
    for name in ours:
        del sys.modules[name]
    before = list(sys.path)
    # A folder without `__init__.py` is hidden by a package of ours of the same name, even later in the path.
    sys.path[:] = [str(folder), *(path for path in before if path and Path(path).resolve() != ROOT)]
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path[:] = before
        for name in of_clone():
            del sys.modules[name]
        sys.modules.update(ours)


def read_weights(file: Path) -> dict[str, Any]:
    """Read a checkpoint of the authors. It is a pickle that may run code, so it must be one that the user trusts."""
    import torch

    checkpoint: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=False)
    return checkpoint


def rigid_from(T: Any) -> Pose:
    """Return a model's transformation (4, 4), whose rotation is one to float32 rounding, as a pose.

    Raises:
        NoSolution: it is not finite.
    """
    pose = np.asarray(T, dtype=np.float64).reshape(4, 4).copy()
    if not np.isfinite(pose).all():
        raise NoSolution("the model's pose is not finite")
    pose[:3, :3] = nearest_rotation(pose[:3, :3])
    return pose


def moved(batch: Any, device: str) -> Any:
    """Move the tensors of a nested batch to a device."""
    if isinstance(batch, dict):
        return {name: moved(part, device) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        return [moved(part, device) for part in batch]
    return batch.to(device) if hasattr(batch, "to") else batch
