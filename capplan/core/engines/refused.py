"""Find the operators of a recording for which an engine has no layer."""

from collections.abc import Mapping

from capplan.core.trace.types import Recording
from capplan.core.workload import Framework

_NAMES: Mapping[Framework, str] = {Framework.TENSORRT: "TensorRT", Framework.ONNXRUNTIME: "ONNX Runtime"}

_BOTH = frozenset(
    {"_fft_r2c", "_fft_c2c", "_fft_c2r", "fft_r2c", "linalg_eigh", "linalg_svd", "_linalg_svd", "linalg_qr",
     "linalg_inv_ex", "linalg_solve", "_linalg_solve_ex", "cholesky", "linalg_cholesky_ex", "_cdist_forward",
     "bincount",
     "_unique2", "unique_dim", "histc", "multinomial", "_ctc_loss", "sparse_mm", "_sparse_mm", "grid_sampler_3d",
     "triangular_solve", "renorm"}
)  # fmt: skip
"""Operators without a layer in either engine (TensorRT operator reference 10; ONNX operators of opset 20)."""
_TENSORRT = frozenset(
    {"deform_conv2d", "roi_pool", "ps_roi_align", "_embedding_bag", "masked_select", "index_put", "bernoulli"}
)
"""Operators that TensorRT needs a plugin for."""
_PUBLIC = frozenset({"aten", "capplan", "prims", "torchvision"})


def refused_operators(recording: Recording, framework: Framework) -> tuple[str, ...]:
    """Name the operators that an engine would refuse: those of other libraries, and those without a layer.

    Args:
        recording: as traced.
        framework: the engine.
    """
    lacking = _BOTH | (_TENSORRT if framework is Framework.TENSORRT else frozenset())
    found: dict[str, None] = {}
    for kernel in recording.kernels:
        library, _, name = kernel.name.partition(".")
        if library not in _PUBLIC or name in lacking or any(each.dtype.startswith("complex") for each in kernel.inputs):
            found[kernel.name.replace(".", "::", 1)] = None
    return tuple(found)


def refusal_notes(recording: Recording, framework: Framework) -> tuple[str, ...]:
    """Return which operators an engine would refuse, and what to do; empty if it accepts all."""
    refused = refused_operators(recording, framework)
    if not refused:
        return ()
    return (f"{_NAMES[framework]} would refuse {', '.join(refused)}: each needs a plugin, or runs outside the engine",)
