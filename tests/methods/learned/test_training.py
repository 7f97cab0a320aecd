"""The training loop on a tiny data set: resume, provenance, impossible sizes."""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods.deepgmr import DeepGMR
from methods.learned import training
from methods.learned.training import Trainer, rmse, train
from methods.learned.training_config import Settings, add_arguments, command_of, settings_of
from methods.learned.training_data import Batch, collate, generate
from tests.catalog import build, open_data
from tests.methods.clouds import tensor_pair

OBJECTS = 40

ROOT = Path(__file__).parents[3]


def posed(seed: int) -> np.ndarray:
    T = np.eye(4)
    T[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    return T


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


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def run(settings: Settings, folder: Path) -> Path:
    return train(settings, folder, folder / "w.safetensors", save_every_s=0)


def test_a_killed_run_goes_on_as_if_it_had_not_been(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = run(settings, tmp_path / "whole")
    step: Callable[[Trainer, Batch], float] = Trainer.step

    def killed(trainer: Trainer, batch: Batch) -> float:
        if trainer.done == 3:
            raise KeyboardInterrupt
        return step(trainer, batch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "step", killed)
        run(settings, tmp_path / "cut")
    assert not (tmp_path / "cut" / "w.safetensors").exists()
    resumed = run(settings, tmp_path / "cut")
    assert "at step 3" in capsys.readouterr().out
    first, second = load_file(whole), load_file(resumed)
    assert all(torch.equal(first[name], second[name]) for name in first)
    rows = [list(csv.DictReader((tmp_path / d / "curve.csv").open())) for d in ("whole", "cut")]
    assert [{k: v for k, v in r.items() if k != "seconds"} for r in rows[0]] == [
        {k: v for k, v in r.items() if k != "seconds"} for r in rows[1]
    ]
    assert [r["step"] for r in rows[0]] == ["2", "4", "6"]
    assert (tmp_path / "cut" / "curve.png").stat().st_size > 5000


def test_weights_tell_where_they_come_from(settings: Settings, tmp_path: Path) -> None:
    file = run(replace(settings, condition="unseen", steps=2), tmp_path)
    with safe_open(file, framework="pt") as handle:
        card = json.loads(handle.metadata()["card"])
    provenance = card["provenance"]
    assert card["config"]["k"] == 20 and card["config"]["components"] == 16
    assert (
        provenance["categories"] == provenance["dataset_categories"][:20]
        and len(provenance["dataset_categories"]) == 40
    )
    assert provenance["steps"] == 2 and provenance["validation"]["step"] == 2
    assert settings.data not in json.dumps(card)
    assert provenance["command"].startswith("bench.py train deepgmr --dataset modelnet40 --condition unseen")
    assert provenance["command"].endswith("--data $BENCH_DATA")
    assert DeepGMR.load(file).config.components == 16


def test_a_checkpoint_is_written_into_new_folders_and_read_back(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "checkpoint.pt"
    training._save_checkpoint(SimpleNamespace(state=lambda: {"done": 3}), file)  # type: ignore[arg-type]
    assert torch.load(file) == {"done": 3} and [*file.parent.iterdir()] == [file]


def test_another_run_s_checkpoint_is_refused(settings: Settings, tmp_path: Path) -> None:
    run(replace(settings, steps=1), tmp_path)
    with pytest.raises(InputError, match=r"checkpoint.pt: field 'settings' .*another --name"):
        run(replace(settings, steps=1, seed=1), tmp_path)


def test_rmse_is_its_formula() -> None:
    draw = np.random.default_rng(0)
    T, T_true, x = draw.normal(size=(4, 4)), draw.normal(size=(4, 4)), draw.normal(size=(50, 3)).astype(np.float32)
    apart = (x @ T[:3, :3].T + T[:3, 3]) - (x @ T_true[:3, :3].T + T_true[:3, 3])
    ours = rmse(torch.from_numpy(T)[None], torch.from_numpy(T_true)[None], torch.from_numpy(x)[None])
    assert ours.item() == pytest.approx(np.sqrt((apart**2).sum(1).mean()))


@pytest.mark.parametrize("steps", range(1, 8))
def test_the_learning_rate_rises_and_falls_within_any_number_of_steps(settings: Settings, steps: int) -> None:
    trainer = Trainer(replace(settings, steps=steps))
    rates = []
    for _ in range(steps):
        trainer.optimiser.step()
        trainer.schedule.step()
        rates.append(trainer.optimiser.param_groups[0]["lr"])
    assert max(rates) == pytest.approx(settings.lr) and all(rate >= 0 for rate in rates)
    assert steps < 3 or rates[-1] < 1e-3 * settings.lr


@pytest.mark.parametrize("schedule", ["onecycle", "plateau"])
def test_fewer_objects_than_are_held_out_train_without_validation(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], schedule: str
) -> None:
    for split in ("train", "test"):
        (tmp_path / "tree" / split).mkdir(parents=True)
        for number in range(4):
            points = np.random.default_rng(number).normal(size=(140, 3))
            np.save(tmp_path / "tree" / split / f"{number}.npy", points)
    name = f"folder[path={tmp_path / 'tree'}]"
    few = replace(settings, dataset=name, condition="resampled", steps=4, name="few", schedule=schedule)
    file = run(few, tmp_path / "run")
    output = capsys.readouterr().out
    assert "no train object is held out, as every 20th is; training goes on without validation" in output
    assert "no validation" in output and file.exists()
    with safe_open(file, framework="pt") as handle:
        validation = json.loads(handle.metadata()["card"])["provenance"]["validation"]
    assert validation["validation_loss"] is None and validation["train_loss"] > 0


def test_the_paper_s_schedule_halves_on_a_plateau(settings: Settings) -> None:
    trainer = Trainer(replace(settings, schedule="plateau", lr=1e-3))
    assert type(trainer.optimiser).__name__ == "Adam"
    for loss in [1.0] * 12:
        trainer.schedule.step(loss)
    assert trainer.optimiser.param_groups[0]["lr"] == pytest.approx(5e-4)


def test_an_unknown_method(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown learned method 'deepgrm'; did you mean deepgmr"):
        run(replace(settings, method="deepgrm"), tmp_path)


@pytest.mark.parametrize(
    ("points", "condition", "message"),
    [((12, 64), "noisy", "--points 12: .*21"), ((64, 65), "noisy", "has 64"), ((33,), "resampled", "takes 66 points")],
)
def test_sizes_that_can_not_be(
    settings: Settings, tmp_path: Path, points: tuple[int, ...], condition: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run(replace(settings, points=points, condition=condition), tmp_path)


def test_the_command_ends_well_and_its_weights_are_read(tmp_path: Path) -> None:
    words = "bench.py train deepgmr --preset smoke --steps 2 --points 64 --validate-every 1 --name tiny".split()
    folders = ["--checkpoints", str(tmp_path / "c"), "--weights", str(tmp_path)]
    ended = subprocess.run([sys.executable, *words, *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr
    assert DeepGMR.load(tmp_path / "tiny.safetensors").config.components == 16


def test_the_optimiser_does_without_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose import takes longer than that of the rest of torch."""
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)
    trainer = Trainer(Settings("pointnetlk_small", precision="float32"))
    (batch,) = batches_of(trainer, (2,))
    before = trainer.step(batch)
    trainer.restore(trainer.state(), tmp_path)
    assert trainer.step(batch) != before and not any(p.grad is None for p in trainer.network.parameters())
    trainer.optimiser.zero_grad()
    assert all(p.grad is None for p in trainer.network.parameters())


def test_the_nearest_truth_counts() -> None:
    T, other = torch.eye(4, dtype=torch.float64)[None], torch.from_numpy(posed(3))[None]
    x = torch.randn(1, 20, 3)
    truths = torch.stack([other, T], dim=1)
    assert rmse(T, truths, x).item() < 1e-5 < rmse(T, other, x).item()


def test_a_run_may_begin_with_weights(settings: Settings, tmp_path: Path) -> None:
    first = run(replace(settings, steps=2), tmp_path / "a")
    later = Trainer(replace(settings, start=str(first)))
    assert all(torch.equal(value, later.network.state_dict()[name]) for name, value in load_file(first).items())
    with pytest.raises(InputError, match="tensor 'backbone"):
        Trainer(replace(settings, method="deepgmr_resampled", start=str(first)))
    assert f"--start {first}" in command_of(later.settings)


@pytest.mark.parametrize("method", ["dcp_small", "prnet_small", "pointnetlk_small"])
def test_the_loop_trains_it_and_the_method_reads_its_weights(method: str, tmp_path: Path) -> None:
    settings = Settings(method, steps=2, batch=2, points=(32,), validate_every=2, validation=2, sampler="euler45")
    assert settings.title == f"{method}_euler45_shapes40_noisy"
    file = train(settings, tmp_path, tmp_path / "w.safetensors")
    network_method = build(f"{method}[weights={file}]")
    network_method.setup("cpu", 0, "shapes40")
    source, target = (c[0].numpy() for c in tensor_pair(50, 60))
    assert network_method.register(source, target).shape == (4, 4)


def batches_of(trainer: Trainer, sizes: tuple[int, ...]) -> list[Batch]:
    """Batches of problems of `shapes40` for a network."""
    problems = generate(open_data("shapes40"), trainer.settings, 32, 0, sum(sizes))
    ends = np.cumsum(sizes)
    return [collate(trainer.network, problems[end - size : end], "cpu") for size, end in zip(sizes, ends, strict=True)]


@pytest.mark.parametrize("clip", [0.1, 1e6])
def test_steps_are_those_of_the_optimiser_with_clipped_gradients(clip: float) -> None:
    """Against AdamW and the norm of the gradient by hand; a norm within the limit stays as it is."""
    settings = Settings("pointnetlk_small", steps=29, clip=clip, precision="float32", seed=3)
    trainer, other = Trainer(settings), Trainer(settings).network
    adam = torch.optim.AdamW(other.parameters())
    rates, losses, recent = [], [], 0.0
    for batch in batches_of(trainer, (2, 2, 3)):
        rates.append(trainer.optimiser.param_groups[0]["lr"])
        trainer.network.eval()
        loss = other.loss(other.estimate(batch.prepared, batch.source, batch.target), batch.T_true)
        adam.zero_grad()
        loss.backward()
        gradients = [p.grad for p in other.parameters()]
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        for gradient in gradients:
            gradient *= min(1.0, clip / (norm + 1e-6))
        adam.param_groups[0].update(lr=rates[-1], betas=trainer.optimiser.param_groups[0]["betas"])
        adam.step()
        losses.append(loss.item())
        assert trainer.step(batch) == pytest.approx(losses[-1], rel=1e-4)
        recent = losses[0] if len(losses) == 1 else 0.95 * recent + 0.05 * losses[-1]
        assert trainer.recent == pytest.approx(recent, rel=1e-4)
        assert trainer.done == len(losses) and trainer.network.training
    assert rates[0] < rates[1] < rates[2]
    for ours, theirs in zip(trainer.network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_steps_use_the_precision_and_validations_use_float32(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    trainer = Trainer(Settings("pointnetlk_small", precision=precision))
    (batch,) = batches_of(trainer, (2,))
    seen: list[tuple[bool, bool, bool]] = []
    estimate = trainer.network.estimate

    def watched(*arguments: object) -> object:
        seen.append((torch.is_autocast_enabled("cpu"), trainer.network.training, torch.is_grad_enabled()))
        return estimate(*arguments)

    monkeypatch.setattr(trainer.network, "estimate", watched)
    trainer.validate([batch])
    trainer.step(batch)
    assert seen == [(False, False, False), (precision == "bfloat16", True, True)]


@pytest.mark.parametrize("schedule", ["onecycle", "plateau"])
def test_a_validation_is_the_mean_over_its_problems(monkeypatch: pytest.MonkeyPatch, schedule: str) -> None:
    trainer = Trainer(Settings("pointnetlk_small", schedule=schedule, lr=0.25))
    trainer.done, trainer.seconds, trainer.recent, told = 7, 1.26, 5.5, []
    monkeypatch.setattr(trainer.schedule, "step", lambda *loss: told.extend(loss))
    errors, losses = iter([torch.tensor([0.1, 0.19]), torch.tensor([0.2, 0.31])]), iter([0.5, 2.0])
    monkeypatch.setattr("methods.learned.training.rmse", lambda *_: next(errors))
    monkeypatch.setattr(trainer.network, "loss", lambda *_: torch.tensor(next(losses)))
    row = trainer.validate(batches_of(trainer, (2, 2)))
    lr = trainer.optimiser.param_groups[0]["lr"]
    assert row == {"step": 7, "seconds": 1.3, "lr": lr, "train_loss": 5.5, "validation_loss": 1.25} | {
        "validation_rmse": pytest.approx(0.2),
        "validation_recall": 0.5,
    }
    without = trainer.validate([])
    assert all(np.isnan(without[f"validation_{name}"]) for name in ("loss", "rmse", "recall"))
    assert trainer.curve == [row, without] and told == ([1.25, 5.5] if schedule == "plateau" else [])
    assert (lr == 0.25) == (schedule == "plateau")


def test_validation_problems_have_the_last_size_and_come_from_the_held_out_part(settings: Settings, data: Path) -> None:
    """In batches of at most eight, the first problems of the part; each size is trained for an equal share of the steps."""
    trainer = Trainer(replace(settings, points=(33, 64, 40), validation=11, steps=9))
    whole = open_data("modelnet40", data)
    batches = training._validation_batches(trainer, whole)
    assert [batch.source.shape for batch in batches] == [(8, 40, 3), (3, 40, 3)]
    problems = generate(training.part_of(whole, held_out=True), trainer.settings, 40, 0, 11)
    expected = np.concatenate([problem.T_target_source[None] for problem in problems])
    np.testing.assert_array_equal(torch.cat([batch.T_true for batch in batches]), expected)
    sizes = [training.points_at(trainer.settings, step) for step in range(9)]
    assert sizes == [33, 33, 33, 64, 64, 64, 40, 40, 40]


TINY = Settings("pointnetlk_small", steps=7, batch=3, points=(32, 48), validate_every=3, precision="float32")


@pytest.mark.parametrize("steps", [3, 7, 99])
def test_the_learning_rate_is_highest_after_a_fifth_of_the_steps(steps: int) -> None:
    """Or after the first step, if a fifth is less than one; schedules of fewer than three steps are those of three."""
    trainer = Trainer(replace(TINY, steps=steps))
    rates = []
    for _ in range(steps):
        trainer.optimiser.step()
        trainer.schedule.step()
        rates.append(trainer.optimiser.param_groups[0]["lr"])
    assert int(np.argmax(rates)) + 1 == max(1, round(0.2 * (steps + 1)) - 1)


@pytest.mark.parametrize(("losses", "lr"), [([1.0] * 11, 1e-3), ([1.0] * 12, 5e-4), ([1.0] * 23, 2.5e-4)])
def test_the_rate_is_halved_after_more_than_ten_validations_without_a_lower_loss(
    losses: list[float], lr: float
) -> None:
    trainer = Trainer(replace(TINY, schedule="plateau", lr=1e-3))
    for loss in losses:
        trainer.schedule.step(loss)
    assert trainer.optimiser.param_groups[0]["lr"] == pytest.approx(lr)


def test_initial_weights_depend_on_the_seed_alone() -> None:
    def weights(**changes: object) -> torch.Tensor:
        torch.rand(5)
        return torch.cat([p.flatten() for p in Trainer(replace(TINY, **changes)).network.parameters()])  # type: ignore[arg-type]

    first = weights()
    assert torch.equal(first, weights(threads=2, lr=0.1)) and torch.get_num_threads() == 2
    assert not torch.equal(first, weights(seed=1)) and torch.get_num_threads() == 1


def test_weights_of_a_part_begin_that_part_and_leave_the_others_as_drawn(tmp_path: Path) -> None:
    fresh = Trainer(TINY).network.state_dict()
    part = {name: torch.full_like(value, 0.5) for name, value in list(fresh.items())[:2]}
    save_file(part, tmp_path / "part.safetensors")
    begun = Trainer(replace(TINY, start=str(tmp_path / "part.safetensors"))).network.state_dict()
    assert all(torch.equal(begun[name], part.get(name, fresh[name])) for name in fresh)


def test_a_state_restores_every_field_and_is_refused_by_other_settings(tmp_path: Path) -> None:
    trainer, other = Trainer(TINY), Trainer(TINY)
    for batch in batches_of(trainer, (2, 2)):
        trainer.step(batch)
    trainer.seconds, trainer.curve = 12.5, [{"step": 2.0}]
    other.restore(trainer.state(), tmp_path)
    assert (other.done, other.seconds, other.recent, other.curve) == (2, 12.5, trainer.recent, [{"step": 2.0}])
    for part in ("network", "optimiser", "schedule"):
        assert str(getattr(other, part).state_dict()) == str(getattr(trainer, part).state_dict())
    with pytest.raises(InputError, match=r"field 'settings' is of `bench\.py train .*--seed 0"):
        Trainer(replace(TINY, seed=1)).restore(trainer.state(), tmp_path)


class Objects:
    """What the loop needs of a data set."""

    def __init__(self, fixed_points: int | None) -> None:
        self.fixed_points = fixed_points


@pytest.mark.parametrize(
    ("points", "condition", "fixed", "message"),
    [
        ((21, 30), "noisy", None, None),
        ((30, 20), "noisy", None, "--points 20: .* need 21 or more"),
        ((21, 64), "noisy", 64, None),
        ((64, 21), "noisy", 63, "--points 64: noisy takes 64 points of an object, shapes40 has 63"),
        ((32, 21), "resampled", 64, None),
        ((33, 21), "resampled", 64, "--points 33: resampled takes 66 points"),
        ((21, 30), "real", None, "--condition real: does not fit shapes40"),
    ],
)
def test_sizes_of_clouds_are_those_that_the_features_and_the_objects_allow(
    points: tuple[int, ...], condition: str, fixed: int | None, message: str | None
) -> None:
    wanted = replace(TINY, points=points, condition=condition)
    if message:
        with pytest.raises(InputError, match=message):
            training._check_points(wanted, Objects(fixed), 21)  # type: ignore[arg-type]
    else:
        training._check_points(wanted, Objects(fixed), 21)  # type: ignore[arg-type]


def test_pairs_have_the_condition_real_and_any_size() -> None:
    rooms = open_data("rooms")
    training._check_points(replace(TINY, dataset="rooms", condition="real", points=(10**9,)), rooms, 21)
    with pytest.raises(InputError, match="--condition noisy: does not fit rooms"):
        training._check_points(replace(TINY, dataset="rooms", condition="noisy"), rooms, 21)


def test_the_loop_draws_each_step_its_problems_and_validates_and_saves_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that a step advances by 10 s: checkpoints are due after more than 20 s, and at the end."""
    trainer, now, events = Trainer(TINY), [100.0], []
    trainer.done, trainer.seconds = 1, 5.0
    whole = open_data("shapes40")
    monkeypatch.setattr(training.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        training,
        "generate",
        lambda part, settings, points, first, count: events.append(("draw", part, points, first, count)) or [],
    )
    monkeypatch.setattr(training, "collate", lambda network, problems, device: (network, problems, device))
    monkeypatch.setattr(training, "prefetch", lambda make, first, last: map(make, range(first, last)))

    def step(batch: object) -> None:
        assert batch == (trainer.network, [], "cpu") and float(torch.tensor(1e-40) * torch.tensor(1.0)) == 0
        now[0] += 10
        trainer.done += 1

    monkeypatch.setattr(trainer, "step", step)
    monkeypatch.setattr(trainer, "validate", lambda batches: events.append(("validate", batches)) or {})
    monkeypatch.setattr(training, "_report", lambda trainer, row: events.append(("report", trainer.done, row)))
    monkeypatch.setattr(training, "write_curve", lambda curve, file: events.append(("curve", file)))
    monkeypatch.setattr(
        training, "_save_checkpoint", lambda trainer, file: events.append(("save", trainer.done, trainer.seconds, file))
    )
    torch.set_flush_denormal(False)
    training._loop(trainer, whole, ["held out"], tmp_path / "checkpoint.pt", 20.0)  # type: ignore[list-item]
    expected: list[tuple] = []
    for number in range(1, 7):
        expected.append(("draw", whole, 32 if number < 4 else 48, 3 * number, 3))
        done = number + 1
        if done in (3, 6, 7):
            expected += [("validate", ["held out"]), ("report", done, {}), ("curve", tmp_path / "curve.csv")]
        if done in (4, 7):
            expected.append(("save", done, 5.0 + 10 * number, tmp_path / "checkpoint.pt"))
    assert events == expected


@pytest.mark.parametrize("loss", [0.25, np.nan])
def test_a_report_has_the_state_and_the_time_left(capsys: pytest.CaptureFixture[str], loss: float) -> None:
    trainer = Trainer(TINY)
    trainer.done, trainer.seconds = 5, 600.4
    row = {"train_loss": 0.125, "validation_loss": loss, "validation_rmse": 0.5, "validation_recall": 0.75}
    training._report(trainer, row)
    validation = "validation loss 0.2500 rmse 0.5000 recall 0.750" if loss == 0.25 else "no validation"
    title = "pointnetlk_small_shapes40_noisy"
    assert capsys.readouterr().out == f"{title}  step 5/7  N 48  600 s  loss 0.1250  {validation}  4 min left\n"


@pytest.mark.parametrize("variables", [{}, {"MALLOC_MMAP_THRESHOLD_": "1"}, training.MALLOC])
def test_the_command_restarts_once_for_the_allocator_and_names_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str]
) -> None:
    events: list[tuple] = []

    class Restarted(Exception):
        """Raised where the process would be replaced."""

    def execve(program: str, words: list[str], environment: dict[str, str]) -> None:
        assert environment.items() >= training.MALLOC.items() and environment["KEPT"] == "1"
        events.append((program, words))
        raise Restarted

    for name in training.MALLOC:
        monkeypatch.delenv(name, raising=False)
    for name, value in {**variables, "KEPT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(training.sys, "platform", "linux")
    monkeypatch.setattr(training.sys, "orig_argv", ["python", "bench.py", "train", "x"])
    monkeypatch.setattr(training.os, "execve", execve)
    monkeypatch.setattr(training, "train", lambda *given: events.append(given))
    options = parsed("pointnetlk_small", "--weights", str(tmp_path / "w"), "--checkpoints", str(tmp_path / "c"))
    restarts = variables != training.MALLOC
    with pytest.raises(Restarted) if restarts else nullcontext():
        training.run(options)
    title = "pointnetlk_small_shapes40_noisy"
    usual = (settings_of(options), tmp_path / "c" / title, tmp_path / "w" / f"{title}.safetensors")
    assert events == [(sys.executable, [sys.executable, "bench.py", "train", "x"]) if restarts else usual]
    monkeypatch.setattr(training.sys, "platform", "darwin")
    training.run(options)
    assert events[-1] == usual
