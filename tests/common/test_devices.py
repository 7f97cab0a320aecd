"""Devices: names, what they mean here, GPUs that do not work, and the flag of every command."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from common import devices
from common.errors import InputError
from methods.base import Method
from methods.core.chain import Chain
from methods.core.registry import MethodRegistry
from methods.learned.gmr import usable_precision
from tests.bench.command_line import configuration, refused
from tests.catalog import spec

GPU = {"name": "GPU A", "driver": "1.2", "cuda": "13.0", "fault": ""}


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gpus(monkeypatch):
    """Let torch see these GPUs, which the test may change."""
    found = [dict(GPU), GPU | {"name": "GPU B"}]
    monkeypatch.setattr(devices, "_build_fault", lambda: "")
    monkeypatch.setattr(devices, "gpus", lambda: (found, "" if found else "torch sees no GPU; check the driver"))
    return found


@pytest.mark.parametrize(
    "name", ["mps", "gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA", "", "cpu:0", "cuda:0,1", "cuda:٣", "cuda:12345"]
)
def test_unknown_names_are_refused_with_the_known_ones(name):
    with pytest.raises(
        InputError, match=rf"^'{name}' is no device of this benchmark; give cpu, cuda, cuda:NUMBER or auto$"
    ):
        devices.resolve(name)


def test_names_mean_a_numbered_gpu(gpus):
    resolved = {name: devices.resolve(name) for name in ("cpu", "auto", "cuda", "cuda:1")}
    assert resolved == {"cpu": "cpu", "auto": "cuda:0", "cuda": "cuda:0", "cuda:1": "cuda:1"}
    for number in (2, 9999):
        says = rf"^cuda:{number}: torch sees 2 GPUs; give cuda:0 to cuda:1, or cpu$"
        with pytest.raises(InputError, match=says):
            devices.resolve(f"cuda:{number}")
    assert devices.identity("cuda:1") == {"name": "GPU B", "driver": "1.2", "cuda": "13.0"}
    assert devices.identity("cpu") == {}
    del gpus[1]
    with pytest.raises(InputError, match=r"^cuda:7: torch sees 1 GPU; give cuda:0, or cpu$"):
        devices.resolve("cuda:7")


def test_a_gpu_that_does_not_compute_is_refused_and_not_chosen(gpus):
    gpus[0]["fault"] = "no kernel image is available"
    assert devices.resolve("auto") == "cuda:1"
    with pytest.raises(
        InputError, match=r"^cuda: GPU A fails \(no kernel image is available\); use another device, or cpu$"
    ):
        devices.resolve("cuda")


def test_without_a_gpu_auto_is_the_cpu_and_others_name_the_remedy(gpus, monkeypatch):
    gpus.clear()
    assert devices.resolve("auto") == "cpu"
    with pytest.raises(InputError, match=r"^cuda: torch sees no GPU; check the driver, or use cpu$"):
        devices.resolve("cuda")
    monkeypatch.setattr(devices, "gpus", lambda: pytest.fail("a CPU build needs no search for GPUs"))
    monkeypatch.setattr(devices, "_build_fault", lambda: "torch is for the CPU; install another")
    assert devices.resolve("auto") == "cpu"
    with pytest.raises(InputError, match=r"^cuda:1: torch is for the CPU; install another, or use cpu$"):
        devices.resolve("cuda:1")


@pytest.mark.parametrize(("cuda", "fault"), [(None, "built for the CPU only; install a CUDA build"), ("13.0", "")])
def test_the_build_of_torch_is_read_without_importing_it(cuda, fault, tmp_path, monkeypatch):
    (tmp_path / "version.py").write_text(f"__version__ = '9.9'\ncuda = {cuda!r}\n")
    monkeypatch.setattr(devices, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    found = devices._build_fault.__wrapped__()
    assert fault in found and bool(fault) == bool(found)
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert "torch is missing" in devices._build_fault.__wrapped__()


def test_gpus_are_listed_by_another_process(monkeypatch):
    answers = [["noise", json.dumps([GPU])], ["[]"], ["no JSON"], []]

    def run(command, **options):
        assert command == [sys.executable, "-m", "common.devices"] and options["check"]
        return SimpleNamespace(stdout="\n".join(answers.pop(0)))

    monkeypatch.setattr(devices.subprocess, "run", run)
    assert devices.gpus.__wrapped__() == ([GPU], "")
    found, reason = devices.gpus.__wrapped__()
    assert found == [] and reason.startswith("torch sees no GPU; check that `nvidia-smi` lists a GPU")
    for error in ("JSONDecodeError", "IndexError"):
        assert devices.gpus.__wrapped__()[1].startswith(f"the GPUs cannot be listed ({error})")


def test_each_gpu_is_described_and_tried(monkeypatch):
    tried = []

    def ones(count, device):
        tried.append(device)
        if device == "cuda:1":
            raise RuntimeError("CUDA error:  no kernel image\nmore")
        return SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: float(count)))

    names = ["GPU A", "GPU B"]
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, get_device_name=names.__getitem__)
    torch = SimpleNamespace(cuda=cuda, ones=ones, version=SimpleNamespace(cuda="13.0", hip=None))
    monkeypatch.setattr(devices, "_driver", lambda: "1.2")
    assert devices._list_gpus(torch) == [GPU, GPU | {"name": "GPU B", "fault": "CUDA error: no kernel image"}]
    assert tried == ["cuda:0", "cuda:1"]
    cuda.is_available = lambda: False
    assert devices._list_gpus(torch) == []


def test_the_driver_is_unknown_without_its_tool(monkeypatch):
    outputs = iter([SimpleNamespace(stdout="550.1\n550.1\n"), FileNotFoundError()])

    def run(*_, **__):
        result = next(outputs)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(subprocess, "run", run)
    assert (devices._driver(), devices._driver()) == ("550.1", "unknown")


COMMANDS = {
    "run": ["run"],
    "pair": ["pair", "a.ply", "b.ply"],
    "check": ["check", "icp"],
    "tune": ["tune", "icp", "--dataset", "shapes40", "--condition", "noisy"],
    "train": ["train", "deepgmr"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_devices_in_one_line(command, gpus, capsys, empty_folder):
    line = refused(capsys, *COMMANDS[command], "--device", "mps")
    assert "argument --device: 'mps' is no device of this benchmark; give cpu, cuda, cuda:NUMBER or auto" in line
    assert "torch sees 2 GPUs" in refused(capsys, *COMMANDS[command], "--device", "cuda:7")
    gpus.clear()
    assert "torch sees no GPU; check the driver, or use cpu" in refused(capsys, *COMMANDS[command], "--device", "cuda")


def test_a_device_in_a_file_is_refused_with_the_file(gpus, capsys, empty_folder):
    (empty_folder / "a.toml").write_text('device = "mps"\n')
    assert refused(capsys, "--config", "a.toml").startswith(
        "bench.py: --config a.toml: argument --device: 'mps' is no device"
    )


def test_two_gpus_do_not_continue_one_record(gpus, empty_folder):
    arguments = ["--methods", "deepgmr", "--datasets", "blobs", "--points", "60"]
    plain, _ = configuration(*arguments)
    assert (plain.device, plain.gpu) == ("cpu", {})
    assert configuration(*arguments, "--device", "cpu")[0].hash == plain.hash
    first, second = (configuration(*arguments, "--device", name)[0] for name in ("auto", "cuda:1"))
    assert first.gpu == {"name": "GPU A", "driver": "1.2", "cuda": "13.0"} and second.gpu["name"] == "GPU B"
    assert (first.device, second.device) == ("cuda:0", "cuda:1")
    gpus[0]["driver"] = "1.3"
    newer, _ = configuration(*arguments, "--device", "cuda")
    assert len({plain.hash, first.hash, second.hash, newer.hash}) == 4
    gpus.clear()
    assert configuration(*arguments, "--device", "auto")[0].hash == plain.hash


def test_methods_without_code_for_a_gpu_get_the_cpu(tmp_path):
    assert [
        spec(name).device_on("cuda:1") for name in ("icp", "hgmr", "deepgmr", "deepgmr+icp", "icp+pointnetlk_small")
    ] == [
        *("cpu", "cpu"),
        *("cuda:1", "cuda:1", "cuda:1"),
    ]
    assert spec("deepgmr").device_on("cpu") == "cpu"
    text = "from methods.base import Method\nclass Own(Method):\n    'A plug-in.'\n    devices = {}\n"
    (tmp_path / "own.py").write_text(text.format("('cpu', 'cuda')"))
    (tmp_path / "wrong.py").write_text(text.format("'cuda'"))
    (tmp_path / "plain.py").write_text(text.format("('cpu',)"))
    registry = MethodRegistry(tmp_path)
    assert (registry.spec("own").device_on("cuda:0"), registry.spec("plain").device_on("cuda:0")) == ("cuda:0", "cpu")
    with pytest.raises(InputError, match=r"Own\.devices is 'cuda'; write \('cpu',\) or \('cpu', 'cuda'\)"):
        registry.spec("wrong")


def test_the_parts_of_a_chain_get_the_devices_they_use():
    seen = []

    class Plain(Method):
        def setup(self, device, seed, domain):
            seen.append((type(self).__name__, device))

    class OnGpu(Plain):
        devices = ("cpu", "cuda")

    Chain(parts=(OnGpu(), Plain())).setup("cuda:1", 0, "d")
    assert seen == [("OnGpu", "cuda:1"), ("Plain", "cpu")]


def test_the_precision_is_that_of_the_given_gpu(monkeypatch):
    import torch

    capabilities = {"cuda:0": (9, 0), "cuda:1": (7, 5)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", capabilities.__getitem__)
    assert [usable_precision("int8", device) for device in capabilities] == ["bfloat16", "float32"]
