"""Range scans of the Stanford 3D Scanning Repository (Turk and Levoy 1994; Curless and Levoy 1996) with poses."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from common import portable
from common.errors import InputError
from common.kinds import DataKind
from common.text import counted
from datasets.cache import Arrays, load_or_compute
from datasets.formats import read_all
from datasets.poses import Matrix, move, quaternion_pose
from datasets.scans import PosedScans, posed_scans


class Stanford(PosedScans):
    """Pairs of real range scans of one object, from a `.conf` file of poses and its `.ply` files.

    All scans of an object are divided by the radius of the sphere around its aligned scans, so that thresholds for unit objects
    apply; `near` is in units of this radius. Each scan remains in its scanner's frame. Scans that a `.conf` file lists but that
    are not on disk are left out.
    """

    licence = "Stanford 3D Scanning Repository: research use, with credit to the Stanford Computer Graphics Laboratory"
    where = (
        "get an object's range data at graphics.stanford.edu/data/3Dscanrep (bunny.tar.gz …) and unpack it below "
        "DATA/stanford/, where DATA is --data or $BENCH_DATA"
    )
    kind = DataKind.RANGE_IMAGES
    path: str = "stanford"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Numbers of scans that are missing or cannot be read."""
        missing = {name: len(arrays["lost"]) for name, arrays in self.groups.items()}
        remarks = [
            f"{name}: {counted(n, 'scan')} of its .conf {'is' if n == 1 else 'are'} not on disk"
            for name, n in missing.items()
            if n
        ]
        return (*remarks, *super().remarks)

    @cached_property
    def groups(self) -> dict[str, Arrays]:  # type: ignore[override]
        """Scans of every `.conf` file."""
        top = self.place(self.path)
        confs = sorted(top.rglob("*.conf")) if top.is_dir() else [top]
        if not confs:
            raise InputError(f"{top}: no .conf below it; {self.where}")
        return {conf.stem: self._object(conf) for conf in confs}

    def _object(self, conf: Path) -> Arrays:
        poses = read_conf(conf)
        present = {conf.parent / name: T for name, T in poses.items() if (conf.parent / name).is_file()}
        missing = [name for name in poses if not (conf.parent / name).is_file()]
        if len(present) < 2:
            raise InputError(
                f"{conf}: fewer than two of the scans it lists are beside it; copy them, such as {missing[0]}"
            )
        name = f"stanford near {self.near} skip_bad {self.skip_bad} lost {' '.join(missing)}"
        absent = {"lost": np.array(missing, dtype=np.str_)}
        return load_or_compute(name, [conf, *present], lambda: self._read_scans(present) | absent)

    def _read_scans(self, poses: dict[Path, Matrix]) -> Arrays:
        geometries, errors, _ = read_all(poses, self.skip_bad)
        scans = {file: g.points for file, g in zip(poses, geometries, strict=True) if g is not None}
        world = np.concatenate([move(poses[file], points) for file, points in scans.items()])
        radius = float(portable.norm(world - (world.min(axis=0) + world.max(axis=0)) / 2).max())
        unit = np.ones((4, 4))  # only the translation has a length
        unit[:3, 3] = radius
        frames = {file.stem: poses[file] / unit for file in scans}
        return posed_scans({file.stem: points / radius for file, points in scans.items()}, frames, self.near, errors)


def read_conf(file: Path) -> dict[str, Matrix]:
    """Read the pose (4, 4), scan to object, by scan, from the lines `bmesh name tx ty tz qx qy qz qw` of a `.conf` file.

    The rotation is the transpose of the quaternion's matrix: with it, the bunny's scans agree to the scanner's resolution;
    without it, they do not meet.

    Raises:
        InputError: a line does not have this form, or there is none.
    """
    poses: dict[str, Matrix] = {}
    for line in file.read_text(errors="replace").splitlines():
        words = line.split()
        if not words or words[0] != "bmesh":
            continue
        try:
            name, *numbers = words[1:]
            T = quaternion_pose([float(n) for n in numbers])
            T[:3, :3] = T[:3, :3].T.copy()
        except ValueError as error:
            raise InputError(f"{file}: '{line[:60]}' is not 'bmesh name tx ty tz qx qy qz qw'; fix it") from error
        poses[name] = T
    if not poses:
        raise InputError(f"{file}: no line 'bmesh name tx ty tz qx qy qz qw' in it; copy it again")
    return poses
