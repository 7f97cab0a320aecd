"""Pairs of frames of a rendered ICL-NUIM sequence (Handa 2014), with exact poses."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from common.errors import InputError
from common.kinds import DataKind
from datasets.cache import Arrays, load_or_compute
from datasets.formats import read_all
from datasets.icl_nuim import IclNuim, numbered, read_depth, subsample
from datasets.poses import Matrix, quaternion_pose
from datasets.scans import PosedScans, posed_scans


class IclNuimPairs(PosedScans):
    """Pairs of rendered depth frames in metres, each in its camera's frame: `depth/<frame>.png` beside `*.gt.freiburg`.

    Frames are subsampled to at most 20 000 points as in `icl_nuim`. Frames that are not in the trajectory are left out.
    """

    licence = IclNuim.licence
    where = IclNuim.where
    kind = DataKind.SCANS
    path: str = "icl_nuim"
    near: float = 0.0375

    @cached_property
    def groups(self) -> dict[str, Arrays]:  # type: ignore[override]
        """Frames of every sequence."""
        top = self.place(self.path)
        sequences = {}
        for folder in (top, *sorted(top.glob("*/"))):
            paths, frames = sorted(folder.glob("*.gt.freiburg")), numbered(folder / "depth", "*.png")
            if paths and frames:
                sequences[folder.name] = self._sequence(paths[0], frames)
        if not sequences:
            raise InputError(f"{top}: no folder with depth/*.png and *.gt.freiburg below it; {self.where}")
        return sequences

    def _sequence(self, trajectory: Path, frames: dict[int, Path]) -> Arrays:
        poses = read_trajectory(trajectory)
        files = {number: file for number, file in frames.items() if number in poses}
        if len(files) < 2:
            raise InputError(
                f"{trajectory}: names fewer than two frames of {trajectory.parent / 'depth'}; copy both again"
            )
        name = f"icl_nuim_pairs near {self.near} skip_bad {self.skip_bad}"
        return load_or_compute(name, [trajectory, *files.values()], lambda: self._read_frames(files, poses))

    def _read_frames(self, files: dict[int, Path], poses: dict[int, Matrix]) -> Arrays:
        geometries, errors, _ = read_all(files.values(), self.skip_bad, reader=read_depth)
        clouds = {n: subsample(g, n) for n, g in zip(files, geometries, strict=True) if g is not None}
        return posed_scans(
            {str(n): c for n, c in clouds.items()}, {str(n): poses[n] for n in clouds}, self.near, errors
        )


def read_trajectory(file: Path) -> dict[int, Matrix]:
    """Read the pose (4, 4), camera to room, of every frame from lines `frame tx ty tz qx qy qz qw`.

    Raises:
        InputError: a line does not have this form.
    """
    poses: dict[int, Matrix] = {}
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        try:
            frame, *numbers = map(float, line.split())
            T = quaternion_pose(numbers)
        except ValueError as error:
            raise InputError(f"{file}: line {number} is not 'frame tx ty tz qx qy qz qw'; copy it again") from error
        poses[int(frame)] = T
    return poses
