"""Parts of a split, batches, true poses of symmetric objects, and prefetching."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from common.errors import InputError
from datasets.base import DataSet, PairSet
from datasets.problems import ProblemKey
from datasets.symmetry import members
from methods.learned import training_data as module
from methods.learned.training import build_network
from methods.learned.training_config import Settings
from methods.learned.training_data import (
    HOLD_EVERY,
    Batch,
    PairPart,
    Part,
    _every_true_pose,
    collate,
    generate,
    part_of,
    points_at,
    prefetch,
)
from tests.catalog import open_data

OBJECTS = 40


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a ModelNet40 of 40 random objects of 64 points, one a category."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "modelnet40" / "modelnet40_ply_hdf5_2048"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for split in ("train", "test"):
        with h5py.File(folder / f"ply_data_{split}0.h5", "w") as handle:
            handle["data"] = draw.uniform(-0.6, 0.6, (OBJECTS, 64, 3)).astype(np.float32)
            handle["label"] = np.arange(OBJECTS, dtype=np.uint8)[:, None]
    return root


@pytest.fixture
def settings(data: Path) -> Settings:
    return Settings(
        "deepgmr",
        dataset="modelnet40",
        data=str(data),
        steps=6,
        batch=2,
        points=(32, 64),
        validate_every=2,
        validation=3,
    )


def test_validation_is_held_out_of_train_and_never_test(data: Path) -> None:
    whole = open_data("modelnet40", data)
    seen = {
        held: {Part(whole, held).shape("train", i).name for i in range(len(Part(whole, held).labels("train")))}  # type: ignore[arg-type]
        for held in (True, False)
    }
    assert not seen[True] & seen[False] and len(seen[True] | seen[False]) == OBJECTS
    assert len(seen[True]) == OBJECTS // HOLD_EVERY
    assert not any("test" in name for name in seen[True] | seen[False])


def test_validation_of_a_split_without_end() -> None:
    whole = open_data("shapes40")
    held, rest = Part(whole, True), Part(whole, False)
    for number in range(45):
        shapes = [part.shape("train", part.pick("train", number, 0)) for part in (held, rest)]
        assert shapes[0].name != shapes[1].name and shapes[0].category == shapes[1].category


def test_every_step_draws_other_problems(settings: Settings) -> None:
    part = Part(open_data(settings.dataset, settings.data), False)
    first, again, second = (generate(part, settings, 32, start, 2) for start in (0, 0, 2))
    assert all((a.source == b.source).all() for a, b in zip(first, again, strict=True))
    assert not np.allclose(first[0].T_target_source, second[0].T_target_source)


def test_points_in_turn(settings: Settings) -> None:
    assert [points_at(settings, step) for step in range(6)] == [32, 32, 32, 64, 64, 64]
    assert points_at(replace(settings, points=(64,)), 5) == 64


def test_ahead_keeps_the_order_and_passes_errors_on() -> None:
    assert list(prefetch(lambda i: i, 3, 20)) == list(range(3, 20))  # type: ignore[arg-type, return-value]
    with pytest.raises(ZeroDivisionError):
        list(prefetch(lambda i: 1 // (5 - i), 0, 9))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("symmetry", ["C1", "C4", "D2", "Cinf"])
def test_every_truth_of_a_symmetric_object_maps_it_onto_itself(symmetry: str) -> None:
    """Of points with the symmetry, each truth gives the same cloud; the drawn truth is the first."""
    problem = generate(Part(open_data("shapes40"), False), Settings("deepgmr"), 32, 0, 1)[0]
    problem = replace(problem, tags={**problem.tags, "symmetry": symmetry})
    truths = _every_true_pose([problem, problem])
    assert truths.shape[0] == 2 and np.allclose(truths[0, 0], problem.T_target_source)
    orbit = members(symmetry, 48) @ np.random.default_rng(0).normal(size=3)
    source = orbit @ problem.source_pose[:3, :3].T + problem.source_pose[:3, 3]
    target = cKDTree(source @ truths[0, 0, :3, :3].T + truths[0, 0, :3, 3])
    for truth in truths[0]:
        assert target.query(source @ truth[:3, :3].T + truth[:3, 3])[0].max() < 1e-9


def test_a_symmetric_loss_needs_known_symmetries(settings: Settings) -> None:
    network = build_network("deepgmr_resampled")
    problems = generate(Part(open_data(settings.dataset, settings.data), False), settings, 32, 0, 2)
    with pytest.raises(InputError, match="symmetries are not known; train on shapes40"):
        collate(network, problems, "cpu")


def test_problems_are_drawn_with_denormals_kept() -> None:
    """Flushed, they change the problems, and a tree of points with denormal coordinates never ends."""
    torch.set_flush_denormal(True)
    try:
        drawn = list(prefetch(lambda i: np.array([1e-310]) * 2.0**i, 0, 2))  # type: ignore[arg-type, return-value]
    finally:
        torch.set_flush_denormal(False)
    assert (np.concatenate(drawn) > 0).all()  # type: ignore[arg-type]


def test_parts_of_pairs_are_disjoint_and_every_turn_uses_each_pair_once() -> None:
    whole = open_data("rooms[split=train,scenes=20]")
    assert isinstance(whole, PairSet)
    trained, held_out = (part_of(whole, held) for held in (False, True))
    assert isinstance(trained, PairPart) and isinstance(held_out, PairPart)
    assert [*trained.rows, *held_out.rows] == list(range(60)) and len(held_out) == 60 // HOLD_EVERY
    for turn in range(2):
        picks = [trained.pick(turn * len(trained) + k, 0) for k in range(len(trained))]
        assert sorted(picks) == list(range(len(trained))) != picks


class Whole(DataSet):
    """A data set with given labels of its train split, whose shapes are their numbers."""

    categories = tuple("abcd")
    fixed_points = 77

    def __init__(self, labels: list[int] | None) -> None:
        super().__init__()
        self.given = labels

    def labels(self, split: str) -> np.ndarray | None:
        assert split == "train"
        return None if self.given is None else np.array(self.given)

    def point_counts(self, split: str) -> np.ndarray | None:
        assert split == "train"
        return None if self.given is None else 10 + np.arange(len(self.given))

    def shape(self, split: str, index: int) -> tuple[str, int]:  # type: ignore[override]
        return split, index


@pytest.mark.parametrize("count", [0, 19, 20, 39, 45])
def test_every_twentieth_object_is_held_out_with_its_label_and_size(count: int) -> None:
    labels = [int(x) for x in np.random.default_rng(0).integers(0, 4, count)]
    held = [19 + 20 * i for i in range(count // 20)]
    for held_out in (True, False):
        part = Part(Whole(labels), held_out)
        rows = [i for i in range(count) if (i in held) == held_out]
        assert [part.shape("test", i) for i in range(len(rows))] == [("train", row) for row in rows]
        found, sizes = part.labels("test"), part.point_counts("test")
        assert found is not None and found.tolist() == [labels[row] for row in rows]
        assert sizes is not None and sizes.tolist() == [10 + row for row in rows]
        assert part.categories == tuple("abcd") and part.fixed_points == 77
        assert part.has_objects("noisy") == bool(rows)
        assert part.has_objects("unseen") == any(labels[row] < 2 for row in rows)


def test_a_split_without_end_has_its_held_out_objects_far_behind_the_others() -> None:
    held, rest = (Part(Whole(None), held_out) for held_out in (True, False))
    for index in (0, 5, 4 * 10**9):
        assert rest.shape("test", index) == ("train", index)
        assert held.shape("test", index) == ("train", 4 * 2**40 + index)
    assert held.labels("train") is None and held.point_counts("train") is None
    assert held.has_objects("noisy") and held.has_objects("unseen")


@pytest.mark.parametrize(("count", "held"), [(2, 1), (19, 1), (39, 1), (40, 2), (60, 3)])
def test_the_last_twentieth_of_pairs_is_held_out_one_at_least(count: int, held: int) -> None:
    class Pairs(PairSet):
        """Pairs that are their numbers."""

        def __len__(self) -> int:
            return count

        def pair(self, row: int) -> int:  # type: ignore[override]
            return row

    whole = Pairs()
    parts = [part_of(whole, held_out) for held_out in (False, True)]
    pairs = [[part.pair(i) for i in range(len(part))] for part in parts]  # type: ignore[union-attr, arg-type]
    assert pairs == [list(range(count - held)), list(range(count - held, count))]
    picks = [[parts[0].pick(k, seed) for k in range(9)] for seed in (0, 0, 1)]  # type: ignore[union-attr]
    assert picks[0] == picks[1] and (picks[0] != picks[2] or count == 2)


def test_problems_are_those_of_the_settings_numbered_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "make_problem", lambda part, key: (part, key))
    settings = Settings("deepgmr", dataset="d", condition="clean", seed=5, sampler="haar", points=(1, 2))
    made = generate("part", settings, 33, 40, 3)  # type: ignore[arg-type]
    assert made == [("part", ProblemKey("d", "clean", 33, 40 + i, 5, "train", "haar")) for i in range(3)]


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_batch_has_the_clouds_and_the_true_poses_of_its_problems(symmetric: bool) -> None:
    problems = generate(Part(open_data("shapes40"), False), Settings("deepgmr"), 32, 0, 6)
    seen = []

    def prepare(source: torch.Tensor, target: torch.Tensor) -> str:
        seen.append((source, target, torch.is_grad_enabled()))
        return "prepared"

    network = SimpleNamespace(config=SimpleNamespace(symmetric=symmetric), prepare=prepare)
    batch = collate(network, problems, "cpu")  # type: ignore[arg-type]
    assert batch.prepared == "prepared" and seen == [(batch.source, batch.target, False)]
    for stacked, name in ((batch.source, "source"), (batch.target, "target")):
        assert stacked.dtype == torch.float32
        np.testing.assert_array_equal(stacked.numpy(), [getattr(problem, name) for problem in problems])
    truths = batch.T_true.numpy()
    poses = np.stack([problem.T_target_source for problem in problems])
    np.testing.assert_allclose(truths[:, 0] if symmetric else truths, poses, atol=1e-12)
    assert truths.dtype == np.float64 and truths.ndim == (4 if symmetric else 3)
    if symmetric:
        sizes = [len(members(str(problem.tags["symmetry"]), 48)) for problem in problems]
        assert truths.shape[1] == max(sizes) > min(sizes)
        for truth, size in zip(truths, sizes, strict=True):
            assert len(np.unique(truth.round(6), axis=0)) == size and (truth[size:] == truth[0]).all()
    own = SimpleNamespace(collate=lambda problems, device: (problems, device, 1, 2))
    assert collate(own, problems, "cuda:1") == Batch(problems, "cuda:1", 1, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [1, 3])
def test_as_many_batches_as_asked_are_computed_ahead(depth: int) -> None:
    begun: list[int] = []
    batches = prefetch(lambda i: begun.append(i) or i, 0, 9, depth)  # type: ignore[arg-type, func-returns-value, return-value]
    for step, batch in enumerate(batches):
        assert batch == step
        for _ in range(1000):
            if len(begun) == min(step + depth + 1, 9):
                break
            time.sleep(0.001)
        assert len(begun) == min(step + depth + 1, 9)
