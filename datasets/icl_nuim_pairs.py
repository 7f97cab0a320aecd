"""Pairs of frames of a rendered ICL-NUIM sequence (Handa 2014), with their exact poses."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from common.errors import InputError
from datasets.cache import Arrays, cached
from datasets.formats import read_all
from datasets.icl_nuim import IclNuim, numbered, read_depth, thinned
from datasets.poses import Matrix, quaternion_pose
from datasets.scans import PosedScans, posed


class IclNuimPairs(PosedScans):
    """Real pairs of depth frames in metres, each in its camera's frame: `depth/<frame>.png` beside `*.gt.freiburg`.

    Frames are thinned to at most 20 000 points as in `icl_nuim`. Those that the trajectory does not name are left out.
    """

    licence = IclNuim.licence
    where = IclNuim.where
    path: str = "icl_nuim"
    near: float = 0.0375

    @cached_property
    def groups(self) -> dict[str, Arrays]:  # type: ignore[override]
        """The frames of every sequence."""
        top = self.place(self.path)
        found = {}
        for folder in (top, *sorted(top.glob("*/"))):
            paths, frames = sorted(folder.glob("*.gt.freiburg")), numbered(folder / "depth", "*.png")
            if paths and frames:
                found[folder.name] = self._sequence(paths[0], frames)
        if not found:
            raise InputError(f"{top}: no folder with depth/*.png and *.gt.freiburg below it; {self.where}")
        return found

    def _sequence(self, trajectory: Path, frames: dict[int, Path]) -> Arrays:
        poses = read_trajectory(trajectory)
        files = {number: file for number, file in frames.items() if number in poses}
        if len(files) < 2:
            raise InputError(f"{trajectory}: names fewer than two of the frames of {trajectory.parent / 'depth'}")
        what = f"icl_nuim_pairs near {self.near} skip_bad {self.skip_bad}"
        return cached(what, [trajectory, *files.values()], lambda: self._read(files, poses))

    def _read(self, files: dict[int, Path], poses: dict[int, Matrix]) -> Arrays:
        geometries, bad = read_all(files.values(), self.skip_bad, reader=read_depth)
        clouds = {n: thinned(g, n) for n, g in zip(files, geometries, strict=True) if g is not None}
        return posed({str(n): c for n, c in clouds.items()}, {str(n): poses[n] for n in clouds}, self.near, bad)


def read_trajectory(file: Path) -> dict[int, Matrix]:
    """Frame to pose (4, 4), camera into the room's frame, of lines `frame tx ty tz qx qy qz qw`.

    Raises:
        InputError: a line is not whole.
    """
    found: dict[int, Matrix] = {}
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        try:
            frame, *numbers = map(float, line.split())
            T = quaternion_pose(numbers)
        except ValueError as error:
            raise InputError(f"{file}: line {number} is not 'frame tx ty tz qx qy qz qw'; copy it again") from error
        found[int(frame)] = T
    return found
