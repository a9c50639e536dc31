"""The classes of kernels of an LLM step, by what they do and the number formats they compute in."""

from enum import StrEnum


class KernelClass(StrEnum):
    """A class of kernels that share their efficiencies.

    `GEMM_*` are dense matrix products and `MOE_*` grouped products over experts, by the format of weights and
    activations (`W4A16`: 4-bit weights, 16-bit arithmetic; `MXFP4` and `NVFP4`: 4-bit arithmetic).
    `DECODE_*` and `PREFILL*` are attention (`DECODE_VECTOR` without tensor cores), `STATE` the
    recurrent state of linear attention and the prompts of state-space layers, `SSM_UPDATE` the states of the latter
    while decoding. `GGML_*` are the dense products of llama.cpp.
    """

    GEMM_16 = "gemm 16-bit"
    GEMM_FP8 = "gemm fp8"
    GEMM_FP8_BLOCK = "gemm fp8 block"
    GEMM_INT8 = "gemm int8"
    GEMM_FP4 = "gemm fp4"
    GEMM_W8A16 = "gemm 8-bit weights"
    GEMM_W4A16 = "gemm 4-bit weights"
    GGML_16 = "gemm 16-bit, llama.cpp"
    GGML_NARROW = "gemm of few bits, llama.cpp"
    MOE_16 = "moe 16-bit"
    MOE_FP8 = "moe fp8"
    MOE_FP8_BLOCK = "moe fp8 block"
    MOE_NVFP4 = "moe nvfp4"
    MOE_MXFP4 = "moe mxfp4"
    MOE_MXFP4_A16 = "moe mxfp4, 16-bit arithmetic"
    MOE_W8A16 = "moe 8-bit weights"
    MOE_W4A16 = "moe 4-bit weights"
    DECODE_GQA = "decode attention"
    DECODE_VECTOR = "decode attention on vector units"
    DECODE_MLA = "decode attention, latent"
    PREFILL = "prefill attention"
    PREFILL_FP8 = "prefill attention fp8"
    STATE = "linear attention state"
    SSM_UPDATE = "state-space update"
