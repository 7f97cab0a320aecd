"""ModelNet40 (Wu et al., CVPR 2015), in the two layouts people have on disk: HDF5 points and OFF meshes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from datasets.base import DataSet, MeshShape, PointShape, Shape, centred_in_unit_sphere

CATEGORIES = tuple(
    "airplane bathtub bed bench bookshelf bottle bowl car chair cone cup curtain desk door dresser flower_pot glass_box "
    "guitar keyboard lamp laptop mantel monitor night_stand person piano plant radio range_hood sink sofa stairs stool "
    "table tent toilet tv_stand vase wardrobe xbox".split()
)
POINTS_FOLDER, MESH_FOLDER = "modelnet40_ply_hdf5_2048", "ModelNet40"


class ModelNet40(DataSet):
    """ModelNet40 with its official train/test split.

    `ROOT/modelnet40/modelnet40_ply_hdf5_2048/` (fixed points, as they are: centred, in the unit sphere) is taken if it is
    there, else `ROOT/modelnet40/ModelNet40/` (OFF meshes, centred at the area centroid, scaled to the unit sphere).
    Symmetries of the objects are not known.
    """

    licence = "research use; may not be redistributed"
    where = (
        f"get modelnet40_ply_hdf5_2048.zip (points) or ModelNet40.zip (meshes, modelnet.cs.princeton.edu) and unpack it "
        f"as DATA/modelnet40/{POINTS_FOLDER}/ or DATA/modelnet40/{MESH_FOLDER}/, where DATA is --data or $BENCH_DATA"
    )
    categories = CATEGORIES

    def __init__(self, root: Path | None = None) -> None:
        super().__init__(root)
        self._points: dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]] = {}
        self._meshes: dict[str, list[tuple[Path, int]]] = {}
        self._shapes: dict[Path, MeshShape] = {}

    @cached_property
    def folder(self) -> Path:
        """The folder of points or of meshes that is on disk."""
        root = self.root or Path("data")
        for name in (POINTS_FOLDER, MESH_FOLDER):
            for folder in (root / "modelnet40" / name, root / name):
                if folder.is_dir():
                    return folder
        raise InputError(f"modelnet40: not found below {root}; {self.where}")

    @property
    def is_points(self) -> bool:
        """Whether objects are fixed points (HDF5) rather than meshes."""
        return self.folder.name == POINTS_FOLDER

    @property
    def fixed_points(self) -> int | None:  # type: ignore[override]
        """Points an object has in the HDF5 files; None for meshes."""
        return self._load_points("test")[0].shape[1] if self.is_points else None

    def labels(self, split: str) -> NDArray[np.integer[Any]]:
        """Label (n,) of every object of a split."""
        if self.is_points:
            return self._load_points(split)[1]
        return np.array([label for _, label in self._list_meshes(split)])

    def shape(self, split: str, index: int) -> Shape:
        """The object with that index: fixed points, or a mesh read when first asked for."""
        if self.is_points:
            data, labels = self._load_points(split)
            category = self.categories[labels[index]]
            return PointShape(f"{category}_{split}_{index:05d}", category, data[index])
        path, label = self._list_meshes(split)[index]
        if path not in self._shapes:
            self._shapes[path] = MeshShape(path.stem, self.categories[label], read_off(path))
        return self._shapes[path]

    def _load_points(self, split: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if split not in self._points:
            parts = [_read_hdf5(f) for f in _listed_files(self.folder, split)]
            sizes = {d.shape[1] for d, _ in parts}
            if len(sizes) != 1:
                raise InputError(
                    f"{self.folder}: 'data' has different point counts {sorted(sizes)} between {split} files"
                )
            self._points[split] = (np.concatenate([d for d, _ in parts]), np.concatenate([lab for _, lab in parts]))
        return self._points[split]

    def _list_meshes(self, split: str) -> list[tuple[Path, int]]:
        if split not in self._meshes:
            found = [
                (file, label)
                for label, category in enumerate(self.categories)
                for file in sorted((self.folder / category / split).glob("*.off"))
            ]
            if not found:
                raise InputError(f"{self.folder}: no <category>/{split}/*.off below it; {self.where}")
            self._meshes[split] = found
        return self._meshes[split]


def _listed_files(folder: Path, split: str) -> Iterator[Path]:
    """The HDF5 files of a split: those named in `<split>_files.txt`, else `ply_data_<split>*.h5`."""
    listing = folder / f"{split}_files.txt"
    if listing.is_file():
        names = [Path(line.strip()).name for line in listing.read_text().splitlines() if line.strip()]
    else:
        names = sorted(f.name for f in folder.glob(f"ply_data_{split}*.h5"))
    if not names:
        raise InputError(f"{folder}: no ply_data_{split}*.h5 in it; {ModelNet40.where}")
    for name in names:
        if not (folder / name).is_file():
            raise InputError(f"{folder / name}: missing, though {listing.name} names it; unpack the archive again")
        yield folder / name


def _read_hdf5(file: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    import h5py

    again = "unpack the archive again"
    try:
        with h5py.File(file, "r") as handle:
            missing = [k for k in ("data", "label") if k not in handle]
            if missing:
                raise InputError(f"{file}: no field '{missing[0]}' (it has {', '.join(handle) or 'none'}); {again}")
            data, label = np.asarray(handle["data"]), np.asarray(handle["label"]).reshape(-1)
    except OSError as error:
        raise InputError(f"{file}: not a whole HDF5 file ({error}); {again}") from error
    if data.ndim != 3 or data.shape[2] != 3 or data.shape[1] < 1 or not np.issubdtype(data.dtype, np.floating):
        raise InputError(f"{file}: field 'data' is {data.dtype} {data.shape}, not float (n, points, 3); {again}")
    if len(label) != len(data) or not np.issubdtype(label.dtype, np.integer):
        raise InputError(f"{file}: field 'label' is {label.dtype} of {len(label)} rows for {len(data)} shapes; {again}")
    if len(label) and not 0 <= label.min() <= label.max() < len(CATEGORIES):
        raise InputError(f"{file}: field 'label' holds {label.min()} to {label.max()}, not 0 to 39; {again}")
    if not np.isfinite(data).all():
        raise InputError(f"{file}: field 'data' holds non-finite coordinates; {again}")
    return data.astype(np.float32, copy=False), label.astype(np.int64)


def read_off(file: Path) -> NDArray[np.float64]:
    """Triangles (T, 3, 3) of an OFF mesh, centred at the area centroid and scaled to the unit sphere.

    Headers that run into the counts (`OFF123 456 0`), as in some files of the archive, are taken as meant.
    """
    import trimesh

    text = file.read_text(errors="replace")
    match = re.match(r"\s*OFF\s*(?=[\d#\s])", text)
    if not match:
        raise InputError(
            f"{file}: header is '{text[:12].splitlines()[0] if text.strip() else ''}', not 'OFF'; mend or remove it"
        )
    try:
        mesh = trimesh.load(io.StringIO("OFF\n" + text[match.end() :]), file_type="off", process=False, force="mesh")
        triangles = np.asarray(mesh.triangles, dtype=np.float64)  # type: ignore[attr-defined]
        if not np.isfinite(triangles).all():
            raise ValueError("a vertex is not finite")
        return centred_in_unit_sphere(triangles)
    except Exception as error:
        raise InputError(
            f"{file}: vertices or faces do not read ({type(error).__name__}: {error}); mend or remove it"
        ) from error
