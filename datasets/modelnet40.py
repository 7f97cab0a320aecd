"""ModelNet40 (Wu et al., CVPR 2015) in its two common layouts: HDF5 points and OFF meshes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, MalformedFile
from datasets.base import DataSet, MeshShape, PointShape, Shape, centred_in_unit_sphere
from datasets.cache import Arrays, load_or_compute
from datasets.download import Archive
from datasets.formats import Geometry, read, read_fields, visible
from datasets.symmetry_estimate import Estimated, check_choice, with_symmetry

CATEGORIES = tuple(
    "airplane bathtub bed bench bookshelf bottle bowl car chair cone cup curtain desk door dresser flower_pot glass_box "
    "guitar keyboard lamp laptop mantel monitor night_stand person piano plant radio range_hood sink sofa stairs stool "
    "table tent toilet tv_stand vase wardrobe xbox".split()
)
SYMMETRIC = frozenset("bottle bowl cone cup flower_pot lamp tent vase".split())
"""Categories that GeoTransformer leaves out because their objects have a rotational symmetry."""
POINTS_FOLDER, MESH_FOLDER = "modelnet40_ply_hdf5_2048", "ModelNet40"
LAYOUTS = {
    "points": Archive(
        "modelnet40_ply_hdf5_2048.zip",
        (
            "https://shapenet.cs.stanford.edu/media/modelnet40_ply_hdf5_2048.zip",
            "https://huggingface.co/datasets/Msun/modelnet40/resolve/main/modelnet40_ply_hdf5_2048.zip",
            "https://github.com/ma-xu/pointMLP-pytorch/releases/download/Modenet40_dataset/modelnet40_ply_hdf5_2048.zip",
        ),
        435_000_000,
        "c9ab8e6dfb16f67afdab25e155c79e59",
        2_000_000_000,
        POINTS_FOLDER,
    ),
    "meshes": Archive(
        "ModelNet40.zip",
        ("http://modelnet.cs.princeton.edu/ModelNet40.zip",),
        2_039_180_837,
        "79bcee68fdf02f581938ba15f4cdca51",
        16_000_000_000,
        MESH_FOLDER,
    ),
}
"""Archive of each layout; its folder identifies the layout on disk."""


class ModelNet40(DataSet):
    """ModelNet40 with its official train/test split.

    `ROOT/modelnet40/modelnet40_ply_hdf5_2048/` holds fixed points, used unchanged: centred, in the unit sphere.
    `ROOT/modelnet40/ModelNet40/` holds OFF meshes, centred at the area centroid and scaled to the unit sphere. `layout` is
    `points`, `meshes`, or `any`: the points if they are on disk. Symmetries are unknown; `symmetry=estimate` estimates them.
    `asymmetric` leaves out the eight categories that GeoTransformer leaves out.
    """

    licence = "research use; may not be redistributed"
    where = (
        f"bench.py data modelnet40, or get modelnet40_ply_hdf5_2048.zip (points) or ModelNet40.zip (meshes, "
        f"modelnet.cs.princeton.edu) and unpack it as DATA/modelnet40/{POINTS_FOLDER}/ or DATA/modelnet40/{MESH_FOLDER}/, "
        f"where DATA is --data or $BENCH_DATA"
    )
    categories = CATEGORIES
    layout: str = "any"
    symmetry: str = "unknown"
    asymmetric: bool = False

    def check(self) -> None:
        if self.layout not in ("any", *LAYOUTS):
            raise ValueError(f"layout must be any, {' or '.join(LAYOUTS)}")
        check_choice(self.symmetry)

    def pick(self, split: str, number: int, seed: int, labels: tuple[int, ...] | None = None, least: int = 0) -> int:
        """Return the index of the object of problem `number`, in a seeded order over the objects of some labels."""
        if self.asymmetric:
            allowed = range(len(CATEGORIES)) if labels is None else labels
            labels = tuple(label for label in allowed if CATEGORIES[label] not in SYMMETRIC)
        return super().pick(split, number, seed, labels, least)

    @property
    def archives(self) -> tuple[Archive, ...]:
        """Archive of the layout; that of the points if the layout is `any`."""
        return (LAYOUTS["points" if self.layout == "any" else self.layout],)

    @cached_property
    def data_folder(self) -> Path:
        """Folder of points or of meshes on disk."""
        root = self.root or Path("data")
        for archive in LAYOUTS.values() if self.layout == "any" else self.archives:
            for folder in (root / "modelnet40" / archive.folder, root / archive.folder):
                if folder.is_dir():
                    return folder
        raise InputError(f"modelnet40: not found below {root}; {self.where}")

    @property
    def is_points(self) -> bool:
        """Whether objects are fixed points (HDF5) rather than meshes."""
        return self.data_folder.name == POINTS_FOLDER

    @property
    def fixed_points(self) -> int | None:  # type: ignore[override]
        """Points per object in the HDF5 files; None for meshes."""
        return self._load_points("test")["data"].shape[1] if self.is_points else None

    def prepare(self) -> str:
        """Read both splits; for fixed points, the summary also identifies the copy."""
        if not self.is_points:
            return super().prepare()
        splits = {split: self.contents(split) for split in ("train", "test")}
        return "; ".join(
            f"{copy['shapes']} {split} shapes of {copy['points']} points (SHA-256 {copy['sha256']})"
            for split, copy in splits.items()
        )

    def contents(self, split: str) -> dict[str, Any]:
        """Return number of shapes, points per shape and SHA-256 of the HDF5 files of a split; nothing for meshes.

        The SHA-256 is that of the lines that `sha256sum` prints for the files in the order of their names. Meshes have none
        because they are read one by one.
        """
        if not self.is_points:
            return {}
        files = sorted(_listed_files(self.data_folder, split))
        sums = load_or_compute("modelnet40 SHA-256", files, lambda: {"sha256": _sha256(files)})["sha256"]
        shapes, points, _ = self._load_points(split)["data"].shape
        return {"split": split, "shapes": shapes, "points": points, "sha256": bytes(sums).hex()}

    def labels(self, split: str) -> NDArray[np.integer[Any]]:
        """Return the labels (n,) of the objects of a split."""
        if self.is_points:
            return self._load_points(split)["label"]
        return np.array([label for _, label in self._list_meshes(split)])

    def shape(self, split: str, index: int) -> Shape:
        """Return the object with an index: fixed points, or a mesh, which is read when first used."""
        return with_symmetry(self._without_symmetry(split, index), self.symmetry, self._estimated)

    def _without_symmetry(self, split: str, index: int) -> Shape:
        if self.is_points:
            arrays = self._load_points(split)
            category = self.categories[arrays["label"][index]]
            return PointShape(f"{category}_{split}_{index:05d}", category, arrays["data"][index])
        path, label = self._list_meshes(split)[index]
        if path not in self._shapes:
            self._shapes[path] = MeshShape(path.stem, self.categories[label], read_off(path))
        return self._shapes[path]

    def _load_points(self, split: str) -> Arrays:
        """Return `data` (n, P, 3) float32 and `label` (n,), mapped from the cache."""
        if split not in self._points:
            files = list(_listed_files(self.data_folder, split))
            self._points[split] = load_or_compute("modelnet40", files, lambda: _read_split(files))
        return self._points[split]

    @cached_property
    def _points(self) -> dict[str, Arrays]:
        return {}

    @cached_property
    def _meshes(self) -> dict[str, list[tuple[Path, int]]]:
        return {}

    @cached_property
    def _estimated(self) -> dict[str, Estimated]:
        return {}

    @cached_property
    def _shapes(self) -> dict[Path, MeshShape]:
        return {}

    def _list_meshes(self, split: str) -> list[tuple[Path, int]]:
        if split not in self._meshes:
            meshes = [
                (file, label)
                for label, category in enumerate(self.categories)
                for file in visible((self.data_folder / category / split).glob("*.off"), self.data_folder)
            ]
            if not meshes:
                raise InputError(f"{self.data_folder}: no <category>/{split}/*.off below it; {self.where}")
            self._meshes[split] = meshes
        return self._meshes[split]


def _sha256(files: list[Path]) -> NDArray[np.uint8]:
    """Compute the SHA-256 (32,) over a line `SHA-256  name` for each file."""
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as handle:
            total.update(f"{hashlib.file_digest(handle, 'sha256').hexdigest()}  {file.name}\n".encode())
    return np.frombuffer(total.digest(), dtype=np.uint8)


def _read_split(files: list[Path]) -> dict[str, NDArray[Any]]:
    parts = [_read_hdf5(f) for f in files]
    sizes = {d.shape[1] for d, _ in parts}
    if len(sizes) != 1:
        raise InputError(
            f"{files[0].parent}: 'data' has different point counts {sorted(sizes)} between files of a split"
        )
    return {"data": np.concatenate([d for d, _ in parts]), "label": np.concatenate([lab for _, lab in parts])}


def _listed_files(folder: Path, split: str) -> Iterator[Path]:
    """Yield the HDF5 files of a split: those listed in `<split>_files.txt`, else `ply_data_<split>*.h5`."""
    listing = folder / f"{split}_files.txt"
    if listing.is_file():
        names = [Path(line.strip()).name for line in listing.read_text().splitlines() if line.strip()]
    else:
        names = [f.name for f in visible(folder.glob(f"ply_data_{split}*.h5"), folder)]
    if not names:
        raise InputError(f"{folder}: no ply_data_{split}*.h5 in it; {ModelNet40.where}")
    for name in names:
        if not (folder / name).is_file():
            raise InputError(f"{folder / name}: missing, but {listing.name} lists it; unpack the archive again")
        yield folder / name


def _read_hdf5(file: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    again = "unpack the archive again"
    fields = read_fields(file, ("data", "label"))
    data, label = fields["data"], fields["label"].reshape(-1)
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
    """Read the triangles (T, 3, 3) of a mesh, centred at the area centroid and scaled to the unit sphere.

    Headers on the same line as the counts (`OFF123 456 0`), as in some files of the archive, are accepted.
    """

    def normalized(mesh: Geometry) -> Geometry:
        if mesh.triangles is None:
            raise MalformedFile("has no faces")
        return Geometry(mesh.points, centred_in_unit_sphere(mesh.triangles))

    triangles = read(file, normalized).triangles
    assert triangles is not None
    return triangles
