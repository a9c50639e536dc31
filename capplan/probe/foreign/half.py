"""Find the tensors that a model keeps in fp32 when the rest of it is converted to 16 bits."""

import torch
from torch import nn


def kept_in_full(module: nn.Module, half: torch.dtype) -> frozenset[int]:
    """Return the identities of parameters and buffers that the model says it keeps in fp32.

    transformers' and diffusers' models name them in `_keep_in_fp32_modules`, for float16, and in
    `_keep_in_fp32_modules_strict`, for both 16-bit types; from_pretrained honours them. Modules whose class has its own
    `half` or `bfloat16` that does nothing are kept whole.
    """
    kept: set[int] = set()
    for part in module.modules():
        names = set(getattr(part, "_keep_in_fp32_modules_strict", None) or ())
        if half is torch.float16:
            names |= set(getattr(part, "_keep_in_fp32_modules", None) or ())
        for name, tensor in (*part.named_parameters(), *part.named_buffers()) if names else ():
            if names & set(name.split(".")):
                kept.add(id(tensor))
        if _refuses(part, half):
            kept |= {id(tensor) for tensor in (*part.parameters(), *part.buffers())}
    return frozenset(kept)


def _refuses(part: nn.Module, half: torch.dtype) -> bool:
    """Return True if a module's own conversion returns the module as it was."""
    name = "half" if half is torch.float16 else "bfloat16"
    own = getattr(type(part), name)
    if own is getattr(nn.Module, name):
        return False
    first = next((tensor for tensor in part.parameters() if tensor.is_floating_point()), None)
    if first is None:
        return False
    probe = nn.Parameter(torch.empty(1, dtype=first.dtype, device="meta"))
    twin = part.__class__.__new__(part.__class__)
    nn.Module.__init__(twin)
    twin.register_parameter("probe", probe)
    try:
        own(twin)
    except (RuntimeError, AttributeError, TypeError):
        return False
    return twin._parameters["probe"] is not None and twin._parameters["probe"].dtype is first.dtype
