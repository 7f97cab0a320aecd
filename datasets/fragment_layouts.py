"""Where the fragments of scenes and their true poses lie on disk, in the layouts in which 3DMatch is distributed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from common.errors import InputError

FRAGMENT = re.compile(r"cloud_bin_(\d+)\.(ply|pcd|pth)")
LISTS = {"3dmatch": "3DMatch", "3dlomatch": "3DLoMatch"}
"""Folder of the official lists of each benchmark."""
LIST_FOLDERS = ("benchmarks", "metadata/benchmarks", "configs/benchmarks", "")
"""Folders, beside or above a scene, that may hold the folders of `LISTS`."""
OFFICIAL_PAIRS = {
    "7-scenes-redkitchen": 506,
    "sun3d-home_at-home_at_scan1_2013_jan_1": 156,
    "sun3d-home_md-home_md_scan9_2012_sep_30": 208,
    "sun3d-hotel_uc-scan3": 226,
    "sun3d-hotel_umd-maryland_hotel1": 104,
    "sun3d-hotel_umd-maryland_hotel3": 54,
    "sun3d-mit_76_studyroom-76-1studyroom2": 292,
    "sun3d-mit_lab_hj-lab_hj_tea_nov_2_2012_scan1_erika": 77,
}
"""Pairs in the list of each test scene of 3DMatch, 1 623 in total: a `gt.log` with this number is the official list."""
DEPTH = 4
"""Levels of folders below the given one in which scenes are searched."""
LAYOUT = (
    "expected is a folder a scene with cloud_bin_0.ply … (or .pcd, .pth) and its gt.log in SCENE/, SCENE-evaluation/, "
    "gt_result/SCENE-evaluation/ or benchmarks/3DMatch/SCENE/"
)


@dataclass(frozen=True)
class SceneFiles:
    """Files of a scene.

    Attributes:
        name: name of the scene.
        clouds: file of each fragment by its number, ascending.
        log: true poses of pairs.
        info: information matrices of pairs; may be missing.
        official: whether `log` is the official list of the benchmark.
    """

    name: str
    clouds: dict[int, Path]
    log: Path
    info: Path
    official: bool


def find_scenes(top: Path, benchmark: str) -> list[SceneFiles]:
    """Return the scenes in a folder and up to four levels below it, by path.

    Args:
        top: a scene, or a folder with scenes.
        benchmark: name in `LISTS`, whose official list is preferred; "" for none.

    Raises:
        InputError: there is no fragment, or a scene has no `gt.log`.
    """
    levels = ["*/" * depth for depth in range(1, DEPTH + 1)]
    folders = [top, *sorted({folder for level in levels for folder in top.glob(level)})]
    fragments = {folder: _fragments(folder) for folder in folders if folder.is_dir()}
    scenes = {folder: clouds for folder, clouds in fragments.items() if clouds}
    if not scenes:
        raise InputError(f"{top}: no cloud_bin_*.ply, .pcd or .pth within {DEPTH} levels; {LAYOUT}")
    return [_scene(folder, clouds, benchmark) for folder, clouds in scenes.items()]


def _fragments(folder: Path) -> dict[int, Path]:
    matches = {file: FRAGMENT.fullmatch(file.name) for file in folder.iterdir()}
    return dict(sorted((int(match[1]), file) for file, match in matches.items() if match))


def _scene(folder: Path, clouds: dict[int, Path], benchmark: str) -> SceneFiles:
    above = [folder.parent, *list(folder.parent.parents)[: DEPTH - 1]]
    lists = [base / where / LISTS[benchmark] for base in above for where in LIST_FOLDERS] if benchmark else []
    official = [place / folder.name for place in lists]
    released = [folder.with_name(f"{folder.name}-evaluation")]
    released += [base / "gt_result" / f"{folder.name}{end}" for base in above for end in ("-evaluation", "")]
    others = [base / where / LISTS["3dmatch"] / folder.name for base in above for where in LIST_FOLDERS]
    for place in [*official, folder, *released, *others]:
        if (log := place / "gt.log").is_file():
            is_list = place in official or (benchmark == "3dmatch" and place in released)
            return SceneFiles(folder.name, clouds, log, place / "gt.info", is_list)
    raise InputError(f"{folder / 'gt.log'}: missing, and in no other place for true poses; {LAYOUT}")
