"""Answer `torch.cuda` as on a machine with one CUDA device, since that is what is planned.

Streams, events and ranges do nothing; questions about the device get the answers of a common data-centre card, and
those that can change what a model runs are noted.
"""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

CAPABILITY = (8, 0)
"""Compute capability that models see: the lowest that has bfloat16 and TF32 (NVIDIA A100)."""

_MEMORY_BYTES = 80 * 2**30


class _Stream:
    """A stand-in for a stream or an event, on which everything has already happened."""

    cuda_stream = 0
    device_index = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("meta")

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def elapsed_time(self, *_: Any) -> float:
        """Return one millisecond: code may divide by it."""
        return 1.0

    def record_event(self, event: Any = None) -> Any:
        return event if event is not None else _Stream()

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    synchronize = wait_stream = wait_event = record = wait = _nothing


class _Device:
    """A stand-in for `torch.cuda.device`: a context that changes nothing."""

    idx = prev_idx = 0

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _returns(value: Any) -> Callable[..., Any]:
    """Return a new function for each name: torch.compile distinguishes torch's functions by identity."""
    return lambda *_, **__: value


def _streams() -> Callable[..., Any]:
    return lambda *_, **__: _Stream()


CUDA_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


def _constructor(dtype: torch.dtype) -> Callable[..., Any]:
    """Return what `torch.cuda.FloatTensor` does: sizes make an empty tensor, data is copied."""

    def make(*args: Any, **_: Any) -> torch.Tensor:
        if not args or all(isinstance(arg, int) for arg in args):
            return torch.empty(args or (0,), dtype=dtype, device="meta")
        (data,) = args
        if isinstance(data, torch.Size):
            return torch.empty(data, dtype=dtype, device="meta")
        return torch.as_tensor(data).to(device="meta", dtype=dtype)

    make.dtype_made = dtype  # type: ignore[attr-defined]  # read by `Tensor.type`
    return make


_PROPERTIES = SimpleNamespace(
    name="CUDA device", major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=_MEMORY_BYTES, multi_processor_count=108,
    max_threads_per_multi_processor=2048, warp_size=32, regs_per_multiprocessor=65536, L2_cache_size=40 * 2**20,
    shared_memory_per_block=48 * 2**10, shared_memory_per_block_optin=163 * 2**10,
    shared_memory_per_multiprocessor=164 * 2**10, is_integrated=0, is_multi_gpu_board=0, gcnArchName="",
)  # fmt: skip

_QUIET = (
    "synchronize", "empty_cache", "ipc_collect", "set_device", "init", "manual_seed", "manual_seed_all", "seed",
    "set_stream", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "set_per_process_memory_fraction",
)  # fmt: skip

_MEASURES = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")

_ANSWERS: dict[str, Callable[..., Any]] = {
    **{name: _returns(None) for name in _QUIET},
    **{name: _streams() for name in ("current_stream", "default_stream", "stream")},
    **{name: _returns(True) for name in ("is_available", "is_initialized")},
    **{name: _returns(0) for name in _MEASURES},
    "is_current_stream_capturing": _returns(False),
    "device_count": _returns(1),
    "current_device": _returns(0),
    "mem_get_info": _returns((_MEMORY_BYTES, _MEMORY_BYTES)),
    "get_arch_list": _returns([f"sm_{CAPABILITY[0]}{CAPABILITY[1]}"]),
    "memory_stats": _returns({}),
}

_NOTED: dict[str, tuple[Any, str]] = {
    "get_device_capability": (CAPABILITY, "compute capability 8.0"),
    "get_device_properties": (_PROPERTIES, "the properties of a card of compute capability 8.0"),
    "get_device_name": ("CUDA device", "a device name"),
    "is_bf16_supported": (True, "bfloat16 support"),
}


@contextlib.contextmanager
def cuda_present(note: Callable[[str], None]) -> Iterator[None]:
    """Make `torch.cuda` answer like a CUDA device; `note` receives answers that can change what a model runs."""

    def noted(value: Any, what: str) -> Callable[..., Any]:
        def answer(*_: Any, **__: Any) -> Any:
            note(f"the model asked torch.cuda and was given {what}")
            return value

        return answer

    answers = {
        **_ANSWERS,
        **{name: noted(value, what) for name, (value, what) in _NOTED.items()},
        **{name: _constructor(dtype) for name, dtype in CUDA_TYPES.items()},
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer, create=True))
        for name in ("Stream", "Event", "ExternalStream"):
            stack.enter_context(mock.patch.object(torch.cuda, name, type(name, (_Stream,), {})))
        for name in ("device", "device_of"):
            stack.enter_context(mock.patch.object(torch.cuda, name, type(name, (_Device,), {})))
        stack.enter_context(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", _returns(0), create=True))
        stack.enter_context(mock.patch.object(torch.Tensor, "record_stream", _returns(None), create=True))
        for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
            stack.enter_context(mock.patch.object(torch.cuda.nvtx, name, _returns(0)))
        stack.enter_context(mock.patch.object(torch.cuda.nvtx, "range", _streams()))
        if hasattr(torch, "accelerator"):  # since PyTorch 2.6; optimizers of a CUDA build ask it for the stream
            stack.enter_context(mock.patch.object(torch.accelerator, "current_stream", _streams()))
        yield
