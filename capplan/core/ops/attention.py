"""Choose the attention kernel that CUDA would run, by torch version, dtype, head size, mask and capability.

The rules are those of `scaled_dot_product_attention`'s backend selection (ATen/native/transformers/cuda/sdp_utils.cpp)
in the releases named. Each rule states what a backend accepts; the first backend in the release's order of
preference that accepts the call runs it, and `math`, which accepts everything, closes every order.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from capplan.core.trace.types import Kernel, Recording
from capplan.core.workload import Workload

Version = tuple[int, int]

LATEST: Version = (9999, 0)
"""A release after all known ones."""
_HALVES = frozenset({"float16", "bfloat16"})


class AttentionBackend(StrEnum):
    """Implementations of fused attention; `MATH` is the unfused one, which holds the score matrix.

    PyTorch never chooses `FLASH_3`, a library of its own for Hopper (Shah et al., FlashAttention-3, 2024): a model asks
    for it, as by diffusers' `set_attention_backend("_flash_3")`.
    """

    FLASH = "flash"
    FLASH_3 = "flash-3"
    EFFICIENT = "efficient"
    CUDNN = "cudnn"
    MATH = "math"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """What the choice of an attention kernel looks at; lengths and head sizes in elements."""

    dtype: str
    query_len: int
    key_len: int
    head_dim: int
    value_dim: int
    has_mask: bool
    is_causal: bool
    grouped_heads: bool
    needs_grad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRule:
    """What one backend accepts in the torch releases `since` <= version < `until` on some compute capabilities."""

    backend: AttentionBackend
    since: Version
    until: Version = LATEST
    capabilities: tuple[Version, Version]
    dtypes: frozenset[str]
    max_head_dim: int
    head_dim_multiple: dict[str, int]
    takes_mask: bool
    takes_grouped_heads: bool
    equal_value_dim: bool = True

    def accepts(self, call: AttentionCall, *, torch_version: Version, compute_capability: Version) -> bool:
        """Return True if this backend would run the call."""
        lowest, highest = self.capabilities
        head_dim = max(call.head_dim, call.value_dim)
        multiple = self.head_dim_multiple.get(call.dtype, 1)
        return (
            self.since <= torch_version < self.until
            and lowest <= compute_capability <= highest
            and call.dtype in self.dtypes
            and head_dim <= self.max_head_dim
            and call.head_dim % multiple == 0
            and call.value_dim % multiple == 0
            and (self.takes_mask or not call.has_mask)
            and (self.takes_grouped_heads or not call.grouped_heads)
            and (not self.equal_value_dim or call.head_dim == call.value_dim)
        )


_ANY_LATER = (99, 99)
_FLASH, _EFFICIENT, _CUDNN = AttentionBackend.FLASH, AttentionBackend.EFFICIENT, AttentionBackend.CUDNN
HOPPER: Version = (9, 0)
"""The compute capability that FlashAttention 3 is written for."""

RULES: tuple[AttentionRule, ...] = (
    # FlashAttention 1, torch 2.0 and 2.1: no padding of the head size.
    AttentionRule(
        backend=_FLASH, since=(2, 0), until=(2, 2), capabilities=((7, 5), _ANY_LATER), dtypes=_HALVES,
        max_head_dim=128, head_dim_multiple={"float16": 8, "bfloat16": 8}, takes_mask=False, takes_grouped_heads=False,
    ),
    # FlashAttention 2: head sizes are padded to a multiple of 8.
    AttentionRule(
        backend=_FLASH, since=(2, 2), until=(2, 5), capabilities=((8, 0), _ANY_LATER), dtypes=_HALVES,
        max_head_dim=256, head_dim_multiple={}, takes_mask=False, takes_grouped_heads=False,
    ),
    AttentionRule(
        backend=_FLASH, since=(2, 5), capabilities=((8, 0), _ANY_LATER), dtypes=_HALVES,
        max_head_dim=256, head_dim_multiple={}, takes_mask=False, takes_grouped_heads=True,
    ),
    # CUTLASS memory-efficient attention: 16-byte rows of a head; masks from 2.1; bfloat16 from Ampere.
    AttentionRule(
        backend=_EFFICIENT, since=(2, 0), until=(2, 1), capabilities=((5, 0), _ANY_LATER),
        dtypes=frozenset({"float32", "float16"}), max_head_dim=10**9,
        head_dim_multiple={"float32": 4, "float16": 8}, takes_mask=False, takes_grouped_heads=False,
        equal_value_dim=False,
    ),
    AttentionRule(
        backend=_EFFICIENT, since=(2, 1), capabilities=((5, 0), _ANY_LATER),
        dtypes=frozenset({"float32", "float16"}), max_head_dim=10**9,
        head_dim_multiple={"float32": 4, "float16": 8}, takes_mask=True, takes_grouped_heads=False,
        equal_value_dim=False,
    ),
    AttentionRule(
        backend=_EFFICIENT, since=(2, 0), until=(2, 1), capabilities=((8, 0), _ANY_LATER),
        dtypes=frozenset({"bfloat16"}), max_head_dim=10**9,
        head_dim_multiple={"bfloat16": 8}, takes_mask=False, takes_grouped_heads=False, equal_value_dim=False,
    ),
    AttentionRule(
        backend=_EFFICIENT, since=(2, 1), capabilities=((8, 0), _ANY_LATER),
        dtypes=frozenset({"bfloat16"}), max_head_dim=10**9,
        head_dim_multiple={"bfloat16": 8}, takes_mask=True, takes_grouped_heads=False, equal_value_dim=False,
    ),
    # cuDNN: first by default in 2.9 on 9.0 and 10.0 (pytorch#162073), then with cuDNN 9.15.1 alone (#171627), which
    # comes with PyTorch from 2.11 on (huggingface/transformers#48163), on 10.3 too (#170800).
    *(
        AttentionRule(
            backend=_CUDNN, since=since, until=until, capabilities=capabilities, dtypes=_HALVES, max_head_dim=128,
            head_dim_multiple={"float16": 8, "bfloat16": 8}, takes_mask=True, takes_grouped_heads=True,
        )
        for since, until, newest in (((2, 9), (2, 10), (10, 0)), ((2, 11), LATEST, (10, 3)))
        for capabilities in ((HOPPER, HOPPER), ((10, 0), newest))
    ),
    AttentionRule(
        backend=AttentionBackend.FLASH_3, since=(1, 0), capabilities=(HOPPER, HOPPER), dtypes=_HALVES,
        max_head_dim=256, head_dim_multiple={"float16": 8, "bfloat16": 8}, takes_mask=False, takes_grouped_heads=True,
    ),
)  # fmt: skip

PREFERENCE: tuple[AttentionBackend, ...] = (_CUDNN, _FLASH, _EFFICIENT)
"""The order in which backends are asked; `math` takes what none accepts. The rules say from which release each is."""

_OWN_LIBRARIES: Version = (2, 11)
"""The release whose kernels libraries of their own have, such as xFormers, which a model of any release may call."""
_ASKED = "asked_backend"
"""The attribute of an attention whose model asks for a kernel by name."""


def ask_attention(recording: Recording, backend: AttentionBackend) -> Recording:
    """Return a recording whose attention asks for a backend by name, whatever release of PyTorch runs it.

    Calls that the backend does not take run what PyTorch chooses.
    """
    kernels = tuple(
        replace(kernel, attributes={**kernel.attributes, _ASKED: backend.value})
        if kernel.name == "capplan.attention"
        else kernel
        for kernel in recording.kernels
    )
    return replace(recording, kernels=kernels)


def asked_backend(kernel: Kernel) -> AttentionBackend | None:
    """Return the backend that an attention asks for by name; None where PyTorch chooses."""
    asked = kernel.attributes.get(_ASKED)
    return None if asked is None else AttentionBackend(str(asked))


_LARGE_GRADIENTS_SINCE: Version = (2, 4)
"""The release from which at the latest flash's backward takes heads over 224 without dropout on all GPUs that it runs
on; it never takes those from 193 to 224 where there is little shared memory (`sdp_utils.cpp`)."""


def _has_little_shared_memory(capability: Version) -> bool:
    return (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)


def choose_attention(
    kernel: Kernel, *, batch: int, dtype: str, torch_version: Version, compute_capability: Version | None
) -> AttentionBackend:
    """Choose the kernel that would run a logical `capplan.attention` (or its backward) on CUDA.

    `dtype` is the type that a recording's "half" stands for; it counts only where the operands are 16-bit.
    Without a compute capability (an unknown or non-CUDA device) an Ampere-like one is assumed.
    """
    if kernel.attributes.get("rank", 4) != 4 or broadcasts_heads(kernel):
        return AttentionBackend.MATH  # fused kernels take [batch, heads, length, width] only
    call = attention_call(kernel, batch=batch, dtype=dtype)
    capability, asked = compute_capability or (8, 0), asked_backend(kernel)
    if asked is AttentionBackend.MATH:
        return asked
    for backend in PREFERENCE if asked is None else (asked, *PREFERENCE):
        skewed = call.is_causal and call.query_len != call.key_len
        large = call.head_dim > 192 and (call.head_dim <= 224 or torch_version < _LARGE_GRADIENTS_SINCE)
        large = large and call.needs_grad and _has_little_shared_memory(capability)
        if backend is _FLASH and (skewed or large):
            continue
        release = _OWN_LIBRARIES if backend is asked else torch_version
        if any(
            rule.backend is backend and rule.accepts(call, torch_version=release, compute_capability=capability)
            for rule in RULES
        ):
            return backend
    return AttentionBackend.MATH


def attention_backend(
    kernel: Kernel, workload: Workload, *, batch: int, compute_capability: Version | None
) -> AttentionBackend:
    """Choose the kernel that would run a logical attention under a workload's release and number formats."""
    return choose_attention(
        kernel,
        batch=batch,
        dtype=workload.precision.half_dtype or "float16",
        torch_version=workload.torch_version,
        compute_capability=compute_capability,
    )


def broadcasts_heads(kernel: Kernel) -> bool:
    """Return True for queries that share heads of keys without `enable_gqa`, which only unfused attention
    broadcasts.
    """
    query, key, value = (operand.shape[:-2] for operand in kernel.inputs[:3])
    return not kernel.attributes.get("enable_gqa") and not query == key == value


def capability_class(compute_capability: Version | None) -> tuple[bool, ...]:
    """Return what the rules distinguish of a compute capability: equal classes choose equal attention kernels."""
    capability = compute_capability or (8, 0)
    admitted = (rule.capabilities[0] <= capability <= rule.capabilities[1] for rule in RULES)
    return (*admitted, _has_little_shared_memory(capability))


def attention_call(kernel: Kernel, *, batch: int, dtype: str) -> AttentionCall:
    """Read from a logical attention what the choice of its kernel looks at."""
    query, key, value = (operand.shape_at(batch) for operand in kernel.inputs[:3])
    own = kernel.inputs[0].dtype
    return AttentionCall(
        dtype=dtype if own == "half" else own,
        query_len=query[-2],
        key_len=key[-2],
        head_dim=query[-1],
        value_dim=value[-1],
        has_mask=bool(kernel.attributes.get("has_mask")),
        is_causal=bool(kernel.attributes.get("is_causal")),
        grouped_heads=bool(kernel.attributes.get("enable_gqa")) and query[-3] != key[-3],
        needs_grad=len(kernel.outputs) > 1 or kernel.name.endswith("_backward"),
    )
