"""Methods by name: what a method as written has of its parts, and what it refuses."""

from __future__ import annotations

import json

import pytest

from common.errors import InputError
from methods.core import registry
from methods.core.chain import Chain
from methods.core.registry import FOLDER, MethodRegistry, MethodSpec
from tests.bench.command_line import PLUGINS

REGISTRY = MethodRegistry()
SINGLE = [
    "icp",
    "pca",
    "fgr[tuple_scale=0.9]",
    "deepgmr",
    "deepgmr_resampled",
    "deepgmr_untrained",
    "identity",
    "random_pose",
]
CHAINS = ["pca+icp", "fgr[tuple_scale=0.9]+icp[trim=0.3]", "deepgmr+icp+icp", "random_pose+hgmr"]


@pytest.mark.parametrize("text", [*SINGLE, *CHAINS])
def test_a_method_as_written_has_the_properties_of_what_it_builds(text: str) -> None:
    """They are known without building it, whose packages may be missing."""
    spec = REGISTRY.spec(text)
    method = spec.build()
    assert (str(spec), spec.is_external, isinstance(method, Chain)) == (text, False, "+" in text)
    for name in ("kind", "random", "solves_batches", "has_gaussians"):
        assert getattr(spec, name) == getattr(method, name), name
    assert spec.environment == dict(method.environment)
    assert json.dumps(spec.parameters) == json.dumps(method.parameters)
    parts = [type(part) for part in (method.parts if isinstance(method, Chain) else [method])]
    assert spec.summary == " + ".join((cls.__doc__ or "").split("\n")[0] for cls in parts)
    assert spec.first_name == text.split("+")[0].split("[")[0] and not spec.uses_tuned
    for device in ("cuda", "cuda:1", "cpu"):
        uses = any(device.split(":")[0] in cls.devices for cls in parts)
        assert spec.device_on(device) == (device if uses else "cpu")


@pytest.mark.parametrize("text", CHAINS[:2])
def test_sources_of_a_chain_are_those_of_its_parts_and_of_chains(text: str) -> None:
    parts = [REGISTRY.spec(part).source_hashes() for part in text.split("+")]
    chain, whole = "methods/core/chain.py", REGISTRY.spec(text).source_hashes()
    assert all(chain not in part and part.keys() >= {"methods/core/base.py"} for part in parts)
    assert all(whole.items() >= part.items() for part in parts) and chain in whole
    assert all((FOLDER.parent / name).is_file() and len(digest) == 16 for name, digest in whole.items())
    assert list(whole) == sorted(whole)


def test_a_plugin_is_external_alone_and_in_a_chain_and_its_files_are_named_from_its_folder() -> None:
    registry = MethodRegistry(PLUGINS)
    assert [registry.spec(text).is_external for text in ("good", "good+icp", "pca+icp")] == [True, True, False]
    assert {"good.py", "methods/core/base.py"} <= registry.spec("good").source_hashes().keys()
    assert registry.spec("good").text == "good" and registry.entries["good"].file == PLUGINS / "good.py"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("icpp", "unknown method 'icpp'; did you mean icp"),
        ("icp[trimm=.2]", "did you mean trim"),
        ("icp+pca", "'icp+pca': pca takes no initial pose, so it cannot follow '+'"),
        ("+icp", "a method is missing beside a +"),
        ("pca+", "a method is missing beside a +"),
        ("pca++icp", "a method is missing beside a +"),
        ("", "an empty name"),
    ],
)
def test_what_is_no_method_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        REGISTRY.spec(text)
    assert says in str(error.value)


def test_a_method_as_written_is_equal_and_shown_by_its_text_alone() -> None:
    """What the registry found of it is the same for one text, and long."""
    one, other = REGISTRY.spec("icp"), MethodSpec("icp", REGISTRY)
    assert one == other != REGISTRY.spec("icp[trim=0.2]") and len({one, other}) == 1
    assert repr(one) == repr(other) and "Part(" not in repr(one) and one.parts and not other.parts


def test_only_plugins_are_described_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    monkeypatch.setattr(registry, "_inspected", lambda source, *_: described.append(source.name) or "facts")
    entries = MethodRegistry(PLUGINS).entries
    assert entries["icp"].with_parameters({"trim": "0.3"}).parameters["trim"] == 0.3 and described == []
    assert entries["good"].with_parameters({}) == entries["good"].facts and described == []
    assert entries["good"].with_parameters({"a": "1"}) == "facts" and described == ["good"]
