"""An emulated GPU: tensors that say `cuda:0` and hold memory of the host, and counts of what a GPU would have to do.

Numbers are those of the CPU, so that whole methods run. A value that the host needs, or a copy between host and GPU, counts as
a synchronisation; every operation that is no view counts the kernels that torch's CUDA code launches for it. With `shapes_only`
tensors hold nothing but their shapes, so that large batches are counted at once.

The numbers of launches per operation were read from ATen; they are close, not exact. The emulation knows no streams and no time.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from methods.base import Unavailable
from methods.native import build

ROOT = str(Path(__file__).resolve().parents[1])
GPU = torch.device("cuda:0")
MEMORY = 24 << 30
"""Bytes of memory of the emulated GPU, all of them free."""
FREE = set(
    "view _unsafe_view reshape slice select transpose permute expand unsqueeze squeeze t detach alias as_strided unbind split "
    "split_with_sizes diagonal unfold _reshape_alias empty empty_like new_empty empty_strided new_empty_strided lift_fresh "
    "chunk numpy_T".split()
)
"""Operations that launch nothing: views and allocations."""
LAUNCHES = {
    "topk": 2,
    "sort": 2,
    "_linalg_svd": 12,
    "linalg_inv_ex": 5,
    "_linalg_det": 5,
    "_linalg_solve_ex": 6,
    "_linalg_eigh": 8,
    "linalg_matrix_exp": 25,
    "nonzero": 4,
    "bincount": 4,
    "equal": 2,
    "index_put_": 2,
    "native_batch_norm": 2,
    "_native_batch_norm_legit": 2,
    "_native_batch_norm_legit_no_training": 1,
}
"""Kernels of operations that launch more than one."""
WAITS = set(
    "_linalg_check_errors linalg_matrix_exp equal nonzero _local_scalar_dense bincount is_nonzero masked_select _linalg_svd "
    "_linalg_eigh unique_dim _unique2".split()
)
"""Operations during which the host waits for the GPU."""
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}


@dataclass
class Counts:
    """What an emulated GPU had to do.

    Attributes:
        launches: kernels by operation.
        waits: synchronisations by place in the code.
        largest: bytes and shape of the largest tensor that an operation wrote.
        shapes_only: whether tensors have no values.
    """

    launches: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    largest: tuple[int, tuple[int, ...]] = (0, ())
    shapes_only: bool = False

    def clear(self) -> None:
        """Forget what was counted, such as that of a setup."""
        self.launches.clear()
        self.waits.clear()
        self.largest = (0, ())

    def wait(self, what: str) -> None:
        """Count a synchronisation at the line of this repository that causes it."""
        frame = sys._getframe(1)
        while frame.f_back and (not frame.f_code.co_filename.startswith(ROOT) or _is_hidden(frame.f_code.co_filename)):
            frame = frame.f_back
        self.waits[f"{what} {frame.f_code.co_filename[len(ROOT) + 1 :]}:{frame.f_lineno}"] += 1

    def wrote(self, name: str, result: Any) -> None:
        """Count an operation with its result."""
        if name in FREE:
            return
        self.launches[name] += LAUNCHES.get(name, 1)
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, (tensor.numel() * tensor.element_size(), tuple(tensor.shape)))


def _is_hidden(file: str) -> bool:
    return ".venv" in file or file.endswith("emulated_gpu.py")


class OnGpu(torch.Tensor):
    """A tensor of the emulated GPU; `inner` holds its values, or only its shape on torch's device `meta`."""

    inner: torch.Tensor
    counts: Counts

    @staticmethod
    def __new__(cls, inner: torch.Tensor, counts: Counts) -> OnGpu:
        """Make a tensor that only says where it is, outside of inference mode, in which its views would be refused."""
        with torch.inference_mode(False):
            made: OnGpu = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls,
                inner.shape,
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                layout=inner.layout,
                device=GPU,
                requires_grad=inner.requires_grad,
            )
        made.inner, made.counts = inner, counts
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        counts = next(x.counts for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, OnGpu))
        return _run(counts, func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, **_: Any) -> str:
        return f"OnGpu({self.inner!r})"


class _Mode(TorchDispatchMode):
    """Catches operations without a tensor of the GPU among their arguments, such as copies to it."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(self.counts, func, args, kwargs or {})


def _run(counts: Counts, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the memory of its tensors and count it."""
    if torch.is_inference_mode_enabled() and torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), "CompositeImplicitAutograd"
    ):  # in inference mode these arrive undivided
        with _Mode(counts):
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
    name = func._schema.name.split("::")[1]
    flat, spec = pytree.tree_flatten((args, kwargs))
    sources = [x for x in flat if isinstance(x, OnGpu)]
    on_gpu = _is_on_gpu(name, args, kwargs, bool(sources))
    if not sources and not on_gpu:
        return func(*args, **kwargs)
    _count_waits(counts, name, args, flat, on_gpu)
    if sources and not on_gpu and counts.shapes_only:
        return torch.ones(sources[0].shape, dtype=kwargs.get("dtype") or sources[0].dtype)
    inner_args, inner_kwargs = pytree.tree_unflatten([_inner(x, counts.shapes_only and on_gpu) for x in flat], spec)
    result = func(*inner_args, **inner_kwargs)
    if not on_gpu:
        return result
    counts.wrote(name, result)
    known = {id(x.inner): x for x in sources}
    return pytree.tree_map(lambda x: _wrapped(x, known, counts), result)


def _is_on_gpu(name: str, args: Any, kwargs: dict[str, Any], has_source: bool) -> bool:
    """Return whether the result of an operation is on the GPU."""
    if name == "copy_":
        return isinstance(args[0], OnGpu)
    device = kwargs.get("device")
    if name == "_local_scalar_dense":
        return False
    return has_source if device is None else torch.device(device).type == "cuda"


def _count_waits(counts: Counts, name: str, args: Any, flat: list[Any], on_gpu: bool) -> None:
    """Count a synchronisation for a copy between host and GPU and for values that the host needs; refuse mixed devices."""
    on_host = [x for x in flat if isinstance(x, torch.Tensor) and not isinstance(x, OnGpu)]
    has_source = any(isinstance(x, OnGpu) for x in flat)
    if name in ("_to_copy", "copy_"):
        if bool(on_host) == on_gpu or (has_source and not on_gpu):
            counts.wait("to the GPU" if on_gpu else "to the host")
    elif name in WAITS and has_source:
        counts.wait(name)
    elif name in INDEXING and has_source:
        indices = [x for x in args[1] if x is not None]
        if any(x.dtype in (torch.bool, torch.uint8) for x in indices) or any(not isinstance(x, OnGpu) for x in indices):
            counts.wait(f"{name} by a mask or by indices of the host")
    elif has_source and any(x.dim() > 0 for x in on_host):
        raise RuntimeError(f"Expected all tensors to be on the same device: {name}")


def _inner(x: Any, as_shape: bool) -> Any:
    """Return what holds the memory of an argument."""
    if isinstance(x, OnGpu):
        return x.inner
    if isinstance(x, torch.device):
        return torch.device("meta" if as_shape else "cpu")
    if isinstance(x, torch.Tensor) and as_shape and x.dim() > 0:
        return x.to("meta")
    return x


def _wrapped(x: Any, known: dict[int, OnGpu], counts: Counts) -> Any:
    """Return a result as a tensor of the GPU: the argument that was changed in place, or a new tensor."""
    if not isinstance(x, torch.Tensor):
        return x
    return known[id(x)] if id(x) in known else OnGpu(x, counts)


@contextmanager
def emulated_gpu(shapes_only: bool = False) -> Iterator[Counts]:
    """Let torch have one GPU within the block, and count what it would have to do.

    Args:
        shapes_only: hold no values: a copy to the host has ones.
    """
    _load_guard()
    counts = Counts(shapes_only=shapes_only)
    stand_ins = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: "emulated GPU",
        "mem_get_info": lambda *_: (MEMORY, MEMORY),
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "reset_peak_memory_stats": lambda *_: None,
        "synchronize": lambda *_: counts.wait("synchronize"),
        "current_stream": lambda *_: SimpleNamespace(cuda_stream=0),
        "Event": lambda **_: SimpleNamespace(record=lambda *_: None, elapsed_time=lambda *_: 0.0),
    }
    with pytest.MonkeyPatch.context() as patch, _Mode(counts):
        for name, stand_in in stand_ins.items():
            patch.setattr(torch.cuda, name, stand_in)
        patch.setattr(
            torch.__future__, "_overwrite_module_params_on_conversion", True
        )  # else parameters keep their class
        yield counts


@functools.cache
def _load_guard() -> None:
    """Register the emulated kind of device with torch, once per process; skip the test where it cannot be compiled."""
    if torch.version.cuda is not None:
        pytest.skip("a CUDA build of torch has its own GPU devices")
    source = Path(__file__).with_name("emulated_gpu_guard.cc")
    torch_folder = Path(torch.__file__).parent
    options = (f"-I{torch_folder / 'include'}", f"-L{torch_folder / 'lib'}", "-lc10", "-std=c++20")

    def make(_: Path, folder: Path) -> None:
        folder.mkdir()
        build.compile_shared(source, folder / "guard.so", options, "for tests with an emulated GPU")

    contents = source.read_bytes(), torch.__version__.encode()
    try:
        file = build.build(build.build_folder("emulated-gpu", *contents), "guard.so", make)
    except Unavailable as reason:
        pytest.skip(f"no emulated GPU: {reason}")
    ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
