"""Adapters of the authors' code, with stubs of its interface: neither the code nor its weights are here."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

import common
from methods import buffer_x, fcgf, geotransformer, predator
from methods.base import NoSolution, Unavailable
from methods.learned import external
from methods.learned.external import ROOT, ExternalMethod, importing_from, moved, rigid_from
from methods.sc2_pcr import Sc2Pcr
from tests.catalog import build, spec
from tests.methods.clouds import pose, solve, turned_pair

MODEL = """
import torch
class Model(torch.nn.Module):
    def __init__(self, *sizes, **options):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
    def load_state_dict(self, state, strict=True):
        assert len(state) > 0
"""
DESCRIBED = """
import numpy as np, torch
def described(xyz):
    draw, xyz = np.random.default_rng(0), np.asarray(xyz)
    away = np.linalg.norm(xyz - xyz.mean(axis=0), axis=1)
    features = np.cos(np.outer(away, draw.normal(scale=300, size=32)) + draw.uniform(0, 6, 32))
    return torch.from_numpy(features.astype(np.float32))
"""
FITTED = """
def fitted(p, q):
    p, q = (c[(c - c.mean(0)).norm(dim=1).argsort()] for c in (p, q))
    T = torch.eye(4)
    U, _, V = torch.linalg.svd((q - q.mean(0)).T @ (p - p.mean(0)))
    T[:3, :3] = U @ torch.diag(torch.tensor([1.0, 1.0, torch.linalg.det(U @ V)])) @ V
    T[:3, 3] = q.mean(0) - T[:3, :3] @ p.mean(0)
    return T
"""
FCGF = {
    "model/resunet.py": MODEL + "ResUNetBN2C = Model",
    "util/misc.py": DESCRIBED
    + """
def extract_features(model, xyz, voxel_size, device, skip_check):
    return xyz, described(xyz)
""",
}
PREDATOR = {
    "models/architectures.py": MODEL
    + DESCRIBED
    + """
class KPFCNN(Model):
    def forward(self, batch):
        (points,), scores = batch["points"], torch.ones(len(batch["points"][0]))
        halves = torch.split(points, batch["stack_lengths"][0].tolist())
        return torch.cat([described(half) for half in halves]), scores, scores
""",
    "datasets/dataloader.py": """
import torch
def calibrate_neighbors(dataset, config, collate_fn):
    return [len(dataset)] * config["num_layers"]
def collate_fn_descriptor(items, config, limits):
    assert len(config["architecture"]) == 2 + 3 * 3 + 2 * 2 + 2 and limits == [1, 1, 1, 1]
    source, target, *_ = items[0]
    both = [torch.from_numpy(cloud) for cloud in (source, target)]
    return {"points": [torch.cat(both)], "stack_lengths": [torch.tensor([len(cloud) for cloud in both])]}
""",
    "lib/utils.py": "def load_config(path):\n    return {'num_layers': 4}",
    "configs/test/indoor.yaml": "",
}
EXPERIMENT = "experiments/geotransformer.3dmatch.stage4.gse.k3.max.oacl.stage2.sinkhorn"
GEOTRANSFORMER = {
    "geotransformer/utils/data.py": """
import torch
def registration_collate_fn_stack_mode(items, stages, voxel, radius, limits):
    assert (stages, voxel, radius, len(limits)) == (4, 0.025, 0.0625, 4)
    return {name: torch.from_numpy(part) for name, part in items[0].items()}
""",
    f"{EXPERIMENT}/config.py": """
from types import SimpleNamespace
def make_cfg():
    return SimpleNamespace(backbone=SimpleNamespace(num_stages=4, init_voxel_size=0.025, init_radius=0.0625))
""",
    f"{EXPERIMENT}/model.py": MODEL
    + FITTED
    + """
class Matched(Model):
    def forward(self, batch):
        return {"estimated_transform": fitted(batch["src_points"], batch["ref_points"])}
create_model = Matched
""",
}
BUFFER_X = {
    "config.py": """
from types import SimpleNamespace
def make_cfg(dataset, root):
    return SimpleNamespace(stage="train")
""",
    "models/BUFFERX.py": MODEL
    + FITTED
    + """
class BufferX(Model):
    def forward(self, batch):
        assert batch["is_aligned_to_global_z"] is False
        return fitted(batch["src_fds_pcd"], batch["tgt_fds_pcd"]).numpy(), [0.0]
""",
    "utils/tools.py": """
def sphericity_based_voxel_analysis(source, target):
    return 1e-4, 0.5, False
""",
}
STUBS = {"fcgf": FCGF, "predator": PREDATOR, "geotransformer": GEOTRANSFORMER, "buffer_x": BUFFER_X}
STATE = {"conv1.kernel": torch.zeros(343, 1, 32), "final.kernel": torch.zeros(64, 32)}


@pytest.fixture
def clone(request, tmp_path, monkeypatch):
    """A stub of a method's clone and weights, and of the packages that it needs; the method's name."""
    for file, text in STUBS[request.param].items():
        path = tmp_path / "clone" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    weights = tmp_path / ("snapshot" if request.param == "buffer_x" else "weights.pth")
    for file in (weights / "Desc" / "best.pth", weights / "Pose" / "best.pth") if weights.suffix == "" else (weights,):
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"state_dict": STATE, "model": STATE, "Desc.weight": 1, "Pose.weight": 2}, file)
    cls = spec(request.param).registry.entries[request.param].cls
    monkeypatch.setenv(f"{cls.variable}_FOLDER", str(tmp_path / "clone"))
    monkeypatch.setenv(f"{cls.variable}_WEIGHTS", str(weights))
    for name in cls.packages:
        package = ModuleType(name)
        package.__spec__ = ModuleSpec(name, None)
        package.EasyDict = type("EasyDict", (dict,), {"__getattr__": dict.__getitem__, "__setattr__": dict.__setitem__})
        monkeypatch.setitem(sys.modules, name, package)
    return request.param


@pytest.mark.parametrize("clone", STUBS, indirect=True)
def test_the_pose_comes_from_the_authors_code(clone):
    source, target, truth = turned_pair(70, n=400)
    method = build(clone)
    assert spec(clone).unavailable() is None
    ExternalMethod.setup(method, "cpu", 0, "rooms")
    assert len(method.scratch.notes["sha256"]) >= 64
    assert np.abs(solve(method, source, target) - truth).max() < 0.1
    assert sys.modules["common"] is common


@pytest.mark.parametrize("clone", ["fcgf"], indirect=True)
def test_a_missing_part_is_named_with_the_command(clone, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "MinkowskiEngine")
    assert "package MinkowskiEngine is missing: install it as https://github.com" in spec(clone).unavailable()
    (tmp_path / "weights.pth").unlink()
    assert "weights.pth does not exist; git clone https://github.com/chrischoy/FCGF" in spec(clone).unavailable()
    monkeypatch.delenv("FCGF_FOLDER")
    assert "set FCGF_FOLDER and FCGF_WEIGHTS" in spec(clone).unavailable()


@pytest.mark.parametrize("clone", ["fcgf"], indirect=True)
def test_code_that_cannot_be_imported_makes_the_method_unavailable(clone, tmp_path):
    (tmp_path / "clone" / "util" / "misc.py").write_text("import no_such_module")
    with pytest.raises(Unavailable, match="no_such_module"):
        build(clone).setup("cpu", 0, "rooms")


@pytest.mark.parametrize("clone", ["buffer_x"], indirect=True)
def test_buffer_x_refuses_the_cpu_once_it_has_code_and_weights(clone, monkeypatch):
    with pytest.raises(Unavailable, match="--device cuda"):
        build("buffer_x").setup("cpu", 0, "rooms")
    monkeypatch.delenv("BUFFER_X_FOLDER")
    with pytest.raises(Unavailable, match="needs the authors' code and weights"):
        build("buffer_x").setup("cpu", 0, "rooms")


def test_modules_of_a_clone_hide_ours_only_while_they_are_imported(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "part.py").write_text("mine = 1")
    before = list(sys.path)
    with importing_from(tmp_path):
        assert import_module("common.part").mine == 1
    assert sys.modules["common"] is common and sys.path == before


def test_a_models_transformation_becomes_rigid():
    T = rigid_from(torch.eye(4) * 1.0001)
    assert T[:3, :3] == pytest.approx(np.eye(3)) and T.dtype == np.float64
    batch = moved({"a": [torch.ones(2)], "b": "text"}, "cpu")
    assert batch["b"] == "text" and batch["a"][0].sum() == 2


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_the_distance_of_a_correct_match_is_in_the_unit_of_the_clouds(scale):
    """Matches within the distance at the returned pose are those that count, in any unit."""
    draw, method, T = np.random.default_rng(0), build("fcgf"), pose(130)
    points = scale * draw.normal(size=(300, 3))
    others = points @ T[:3, :3].T + scale * T[:3, 3] + scale * draw.normal(scale=0.01, size=points.shape)
    others[:90] = scale * draw.normal(size=(90, 3))
    descriptors = np.eye(300, dtype=np.float32)
    method.begin(0)
    found = method.fitted((points, descriptors), (others, descriptors), 0.05 * scale)
    apart = np.linalg.norm(points @ found[:3, :3].T + found[:3, 3] - others, axis=1)
    notes = method.scratch.notes
    assert notes["matches"] == 300 and abs(notes["inliers"] - (apart < 0.05 * scale).sum()) <= 2
    assert 200 <= notes["inliers"] <= 215 and notes["confidence"] == notes["inliers"] / 300
    assert np.abs(found[:3, :3] - T[:3, :3]).max() < 0.01
    with pytest.raises(NoSolution, match="2 mutual matches; a pose needs 3"):
        method.fitted((points[:2], descriptors[:2]), (others[:2], descriptors[:2]), 0.05)


class Adapter(ExternalMethod):
    """An adapter of a clone with one file, whose model is what it was loaded with."""

    variable = "ADAPTER"
    repository = "https://host/clone"
    files = ("model.py", "part/more.py")
    packages = ("package_a", "package_b")

    def load(self, folder, weights, device):
        self.state["loaded"] = (folder, weights, device, Path.cwd())


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    for name in ("clone/model.py", "clone/part/more.py", "weights.pth"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    for name in Adapter.packages:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules[name].__spec__ = ModuleSpec(name, None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ADAPTER_FOLDER", "~/clone/part/..")
    monkeypatch.setenv("ADAPTER_WEIGHTS", str(tmp_path / "weights.pth"))
    return tmp_path


REMEDY = "git clone https://host/clone, get its weights, and set ADAPTER_FOLDER and ADAPTER_WEIGHTS"


@pytest.mark.parametrize("missing", [None, "folder", "weights", "model.py", "part/more.py", "file", "package_b"])
def test_what_is_missing_of_a_clone_is_named(adapter, monkeypatch, missing):
    expected = None
    if missing in ("folder", "weights"):
        monkeypatch.setenv(f"ADAPTER_{missing.upper()}", "")
        expected = f"needs the authors' code and weights: {REMEDY}"
    elif missing == "package_b":
        monkeypatch.delitem(sys.modules, "package_b")
        expected = "package package_b is missing: install it as https://host/clone describes"
    elif missing:
        file = adapter / "weights.pth" if missing == "file" else adapter / "clone" / missing
        file.unlink()
        expected = f"{file} does not exist; {REMEDY}"
    if expected is None:
        Adapter.check_available()
    else:
        for call in (Adapter.check_available, lambda: Adapter().setup("cpu", 0, "rooms")):
            with pytest.raises(Unavailable, match=f"^{re.escape(expected)}$"):
                call()
    paths = [adapter / "clone", adapter / "weights.pth"]
    assert Adapter.paths() == tuple(
        None if missing == name else path for name, path in zip(("folder", "weights"), paths, strict=True)
    )


@pytest.mark.parametrize("folder", [False, True])
def test_every_weight_file_is_noted_with_its_digest(adapter, monkeypatch, folder):
    files = [adapter / "weights.pth"]
    if folder:
        files = [adapter / "all" / name for name in ("a/x.pth", "b.pth")]
        for file in (*files, adapter / "all" / "a" / "notes.txt"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(file.name)
        monkeypatch.setenv("ADAPTER_WEIGHTS", str(adapter / "all"))
    method = Adapter()
    method.begin(0)
    method.setup("cuda:1", 0, "rooms")
    digests = " ".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    assert method.scratch.notes == {"sha256": digests} and method.state["device"] == "cuda:1"
    weights = adapter / "all" if folder else files[0]
    assert method.state["loaded"] == (adapter / "clone", weights, "cuda:1", adapter / "clone")


def test_modules_and_paths_are_restored_even_if_a_clone_cannot_be_imported(tmp_path):
    for name in ("pathlib.py", "clone_only.py", "json"):
        (tmp_path / name).mkdir() if "." not in name else (tmp_path / name).write_text("mine = 2")
    (tmp_path / "random.txt").touch()
    import json
    import random

    ours, before, here = json.decoder, list(sys.path), Path.cwd()
    with pytest.raises(ZeroDivisionError), importing_from(tmp_path):
        assert Path.cwd() == tmp_path and sys.path[0] == str(tmp_path) and str(ROOT) not in sys.path
        assert "" not in sys.path and set(sys.path[1:]) <= set(before)
        assert "json" not in sys.modules and "json.decoder" not in sys.modules
        assert sys.modules["random"] is random, "a file of another kind hides nothing"
        assert import_module("clone_only").mine == import_module("pathlib").mine == 2
        raise ZeroDivisionError
    assert sys.modules["json"] is json and sys.modules["json.decoder"] is ours and "clone_only" not in sys.modules
    assert import_module("pathlib").Path is Path and sys.path == before and Path.cwd() == here


@pytest.mark.parametrize("limit", [40, 300])
def test_matches_beyond_the_limit_of_the_solver_are_left_out_evenly(monkeypatch, limit):
    draw, T, seen = np.random.default_rng(0), pose(10), []
    points = draw.normal(size=(100, 3))
    others = points @ T[:3, :3].T + T[:3, 3]
    monkeypatch.setattr(external, "Sc2Pcr", lambda: Sc2Pcr(limit=limit))
    usual = Sc2Pcr.hypotheses
    monkeypatch.setattr(Sc2Pcr, "hypotheses", lambda self, *a: seen.append(a) or usual(self, *a))
    method, order = Adapter(), draw.permutation(100)
    method.begin(0)
    eye = np.eye(100, dtype=np.float32)
    found = method.fitted((points, eye), (others[order], eye[order]), 0.2)
    np.testing.assert_allclose(found, T, atol=1e-6)
    ((p, q, tolerance),) = seen
    rows = np.linspace(0, 99, min(limit, 100)).astype(int)
    scale = np.linalg.norm(points[rows][1] - points[rows][0]) / np.linalg.norm(p[1] - p[0])
    assert len(p) == len(q) == len(rows) and tolerance == pytest.approx(0.2 / scale)
    np.testing.assert_allclose(p * scale, points[rows] - points[rows].mean(axis=0), atol=1e-9)
    assert method.scratch.notes == {"matches": 100, "inliers": len(rows), "confidence": 1.0}
    assert list(method.scratch.stages) == ["matching", "solve"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_transformation_that_is_not_finite_is_no_solution(value):
    T = np.eye(4).ravel()
    assert np.array_equal(rigid_from(T), np.eye(4))
    T[7] = value
    with pytest.raises(NoSolution, match="not finite"):
        rigid_from(T)
    kept = torch.eye(4, dtype=torch.float64)
    rigid_from(kept * 1.001)[0, 3] = 5
    assert torch.equal(kept, torch.eye(4, dtype=torch.float64))
    nested = {"a": [1, (2, {"b": SimpleNamespace(to=lambda device: device)})]}
    assert moved(nested, "cuda:2") == {"a": [1, [2, {"b": "cuda:2"}]]}


def module_of(**members):
    return SimpleNamespace(**members)


class Model(torch.nn.Module):
    """A model that writes down how it was made and called."""

    answer = None

    def __init__(self, *sizes, **options):
        super().__init__()
        self.made, self.loaded, self.asked = (sizes, options), [], []

    def load_state_dict(self, state, strict=True):
        self.loaded.append((state, strict))

    def forward(self, batch):
        self.asked.append((batch, torch.is_inference_mode_enabled(), self.training))
        return self.answer


@pytest.fixture
def clone_of(monkeypatch):
    """Return a function that replaces the modules and the weights of a clone by given ones."""

    def replace(module, modules, weights):
        monkeypatch.setattr(module, "import_module", modules.__getitem__)
        monkeypatch.setattr(module, "read_weights", weights)

    return replace


@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_the_sizes_of_fcgf_follow_from_its_weights(clone_of, kernel):
    state = {"conv1.kernel": torch.zeros(kernel**3, 1, 32), "final.kernel": torch.zeros(1, 64, 16)}
    calls = []

    def extract(model, **options):
        calls.append((model, options, torch.is_inference_mode_enabled()))
        return torch.ones(2, 3, dtype=torch.float64), torch.zeros(2, 16)

    modules = {"model.resunet": module_of(ResUNetBN2C=Model), "util.misc": module_of(extract_features=extract)}
    clone_of(fcgf, modules, lambda file: {"state_dict": state, "file": file})
    method = build("fcgf[voxel=0.05]")
    method.state["device"] = "cpu"
    method.load(Path("folder"), Path("weights"), "cpu")
    model = method.state["model"]
    assert model.made == ((1, 16), {"normalize_feature": True, "conv1_kernel_size": kernel, "D": 3})
    assert model.loaded == [(state, True)] and not model.training
    points, features = method._described(np.ones((4, 3), np.float32))
    assert points.shape == (2, 3) and features.shape == (2, 16)
    ((used, options, inference),) = calls
    xyz = options.pop("xyz")
    assert used is model and inference and xyz.dtype == np.float64 and xyz.shape == (4, 3)
    assert options == {"voxel_size": 0.05, "device": torch.device("cpu"), "skip_check": True}


@pytest.mark.parametrize(("points", "positive"), [(50, 200), (500, 200), (20, 20)])
def test_predator_draws_points_by_their_scores_without_repetition(points, positive):
    draw = np.random.default_rng(0)
    cloud = draw.normal(size=(300, 3)).astype(np.float32)
    scores = draw.uniform(0.01, 1, 300)
    scores[positive:] = -draw.uniform(0, 1, 300 - positive)
    features = np.arange(300.0)[:, None]
    method = build(f"predator[points={points}]")
    method.begin(4)
    drawn, described = method._drawn(cloud, features, scores)
    rows = described[:, 0].astype(int)
    share = np.where(scores > 0, scores, 0) / scores[scores > 0].sum()
    expected = np.random.default_rng(4).choice(300, min(points, positive), replace=False, p=share)
    assert np.array_equal(rows, expected) and len(set(rows)) == min(points, positive) and max(rows) < positive
    assert drawn.dtype == np.float64 and np.array_equal(drawn, cloud[rows])


@pytest.mark.parametrize("layers", [3, 4])
def test_predator_asks_the_authors_network_about_thinned_clouds(clone_of, monkeypatch, layers):
    """Its network has a block more for each layer; descriptors and scores are those of the source, then of the target."""
    calls = []
    modules = {
        "datasets.dataloader": module_of(
            collate_fn_descriptor=lambda items, config, limits: calls.append((items, config, limits)) or {"points": []},
            calibrate_neighbors=lambda data, config, collate_fn: [len(data), collate_fn],
        ),
        "lib.utils": module_of(load_config=lambda path: calls.append(path) or {"num_layers": layers}),
        "easydict": module_of(EasyDict=lambda values: SimpleNamespace(**values)),
        "models.architectures": module_of(KPFCNN=Model),
    }
    clone_of(predator, modules, lambda file: {"state_dict": f"state of {file}"})
    method = build("predator[distance=0.3]")
    method.state["device"] = "cpu"
    method.load(Path("folder"), Path("weights"), "cpu")
    model, collate = method.state["model"], modules["datasets.dataloader"].collate_fn_descriptor
    blocks = ["resnetb_strided", "resnetb", "resnetb"] * (layers - 1) + ["nearest_upsample", "unary"] * (layers - 2)
    assert calls.pop() == "folder/configs/test/indoor.yaml" and model.loaded == [("state of weights", True)]
    config = method.state["config"]
    assert model.made == ((config,), {}) and not model.training
    assert config.architecture == ["simple", "resnetb", *blocks, "nearest_upsample", "last_unary"]
    draw = np.random.default_rng(0)
    clouds = [draw.uniform(0, 0.2, (n, 3)).astype(np.float32) for n in (500, 400)]
    thin = [predator.voxel_means(cloud.astype(np.float64), 0.025).astype(np.float32) for cloud in clouds]
    n, m = map(len, thin)
    overlap, saliency = torch.arange(1.0, n + m + 1), torch.full((n + m,), 2.0)
    model.answer = torch.arange(float(n + m))[:, None], overlap, saliency
    drawn = []
    monkeypatch.setattr(type(method), "_drawn", lambda self, *parts: drawn.append(parts) or len(drawn))
    monkeypatch.setattr(type(method), "fitted", lambda self, *parts: parts)
    method.begin(0)
    assert method.register(*clouds) == (1, 2, 0.3) and list(method.scratch.stages) == ["features"]
    (source, features, scores), (target, others, other_scores) = drawn
    assert np.array_equal(source, thin[0]) and np.array_equal(target, thin[1])
    assert np.array_equal(np.concatenate([features, others])[:, 0], np.arange(n + m)) and len(features) == n
    assert np.array_equal(np.concatenate([scores, other_scores]), 2 * np.arange(1, n + m + 1)) and len(scores) == n
    ((item,), given, limits), (batch, inference, training) = calls[0], model.asked[0]
    assert given is config and limits == [1, collate] and batch == {"points": []} and inference and not training
    for k, cloud in enumerate(thin):
        assert np.array_equal(item[k], cloud) and np.array_equal(item[7 + k], cloud)
        assert np.array_equal(item[2 + k], np.ones((len(cloud), 1))) and item[2 + k].dtype == np.float32
    assert np.array_equal(item[4], np.eye(3)) and np.array_equal(item[5], np.zeros((3, 1))) and len(item) == 10
    assert item[6].dtype == torch.int64 and item[6].shape == (1, 2) and item[9].tolist() == [1.0]


def test_geotransformer_gets_both_clouds_and_the_settings_of_its_configuration(clone_of, monkeypatch, tmp_path):
    """The source's pose in the frame of the reference is the answer."""
    calls, entered = [], []
    backbone = SimpleNamespace(num_stages=4, init_voxel_size=0.025, init_radius=0.0625)
    collate = lambda *given: calls.append(given) or {"batch": 1}  # noqa: E731
    modules = {
        "geotransformer.utils.data": module_of(registration_collate_fn_stack_mode=collate),
        "config": module_of(make_cfg=lambda: SimpleNamespace(backbone=backbone)),
        "model": module_of(create_model=Model),
    }
    clone_of(geotransformer, modules, lambda file: {"model": f"state of {file}"})
    monkeypatch.setattr(
        geotransformer, "importing_from", lambda folder: entered.append(folder) or contextlib.nullcontext()
    )
    method = build("geotransformer")
    method.state["device"] = "cpu"
    method.load(tmp_path, Path("weights"), "cpu")
    model = method.state["model"]
    assert entered == [tmp_path / EXPERIMENT] and model.loaded == [("state of weights", True)] and not model.training
    model.answer = {"estimated_transform": torch.from_numpy(pose(3))}
    draw = np.random.default_rng(0)
    clouds = [draw.uniform(0, 0.2, (n, 3)).astype(np.float32) for n in (500, 400)]
    method.begin(0)
    np.testing.assert_allclose(method.register(*clouds), pose(3), atol=1e-12)
    assert list(method.scratch.stages) == ["features"] and model.asked == [({"batch": 1}, True, False)]
    (((item,), *stages),) = calls
    assert stages == [4, 0.025, 0.0625, [38, 36, 36, 38]]
    assert item.keys() == {"transform", "src_points", "src_feats", "ref_points", "ref_feats"}
    assert np.array_equal(item["transform"], np.eye(4)) and item["transform"].dtype == np.float32
    for side, cloud in zip(("src", "ref"), clouds, strict=True):
        thin = geotransformer.voxel_means(cloud.astype(np.float64), 0.025).astype(np.float32)
        assert np.array_equal(item[f"{side}_points"], thin)
        assert (
            np.array_equal(item[f"{side}_feats"], np.ones((len(thin), 1))) and item[f"{side}_feats"].dtype == np.float32
        )


def test_buffer_x_loads_each_stage_from_its_folder_and_thins_by_the_edge_that_it_finds(clone_of):
    configured, edges = SimpleNamespace(stage="train"), []

    def voxel(source, target):
        edges.append((len(source.points), len(target.points)))
        return 0.05, 0.5, True

    modules = {
        "config": module_of(make_cfg=lambda *given: given == ("3DMatch", "folder") and configured),
        "models.BUFFERX": module_of(BufferX=Model),
        "utils.tools": module_of(sphericity_based_voxel_analysis=voxel),
    }
    state = {"Desc.a": 1, "Pose.a": 2, "other": 3}
    files = []
    clone_of(buffer_x, modules, lambda file: files.append(file) or state)
    method = build("buffer_x")
    method.state["device"] = "cpu"
    method.load(Path("folder"), Path("weights"), "cpu")
    model = method.state["model"]
    assert files == [Path("weights") / stage / "best.pth" for stage in ("Desc", "Pose")]
    assert model.loaded == [({"Desc.a": 1}, False), ({"Pose.a": 2}, False)]
    assert model.made == ((configured,), {}) and configured.stage == "test" and not model.training
    model.answer = pose(5), "more"
    draw = np.random.default_rng(0)
    clouds = [draw.uniform(0, 0.2, (n, 3)).astype(np.float32) for n in (900, 800)]
    method.begin(0)
    np.testing.assert_allclose(method.register(*clouds), pose(5), atol=1e-12)
    ((batch, inference, training),) = model.asked
    assert edges == [(900, 800)] and inference and not training and batch["is_aligned_to_global_z"] is True
    for side, cloud in zip(("src", "tgt"), clouds, strict=True):
        cells = len(np.unique(np.floor((cloud - cloud.min(0) + 0.025) / 0.05), axis=0))
        thin = batch[f"{side}_fds_pcd"]
        assert thin.dtype == torch.float32 and len(thin) == cells < len(cloud)
        assert np.abs(thin.numpy().mean(0) - cloud.mean(0)).max() < 0.03
    assert list(method.scratch.stages) == ["features"]
