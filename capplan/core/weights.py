"""The number formats that weights are stored in, and the bits that each takes, its share of the scales included."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from capplan.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """A number format of weights.

    `bits` counts one quantised weight with its share of the scales; `other_bits` is what the checkpoint keeps
    the rest in. `padded` says that engines pad the sides of an expert's matrices to whole tiles. `gguf` names
    llama.cpp's mix.
    """

    name: str
    bits: float
    other_bits: float = 16
    padded: bool = False
    gguf: str | None = None


_FORMATS = (
    WeightFormat(name="fp32", bits=32, other_bits=32),
    WeightFormat(name="bf16", bits=16),
    WeightFormat(name="fp16", bits=16),
    WeightFormat(name="fp8", bits=8),
    WeightFormat(name="fp8_block", bits=8 + 32 / (128 * 128)),  # one fp32 scale per block of 128 × 128
    WeightFormat(name="int8", bits=8),
    WeightFormat(name="int8_wo", bits=8),
    WeightFormat(name="int4_wo", bits=4 + 20 / 128),
    WeightFormat(name="awq", bits=4 + 20 / 128),  # per 128 weights a 16-bit scale and a 4-bit zero point
    WeightFormat(name="gptq", bits=4 + 20 / 128),
    WeightFormat(name="int4_g32", bits=4 + 16 / 32),  # symmetric: a 16-bit scale per 32 weights
    *(WeightFormat(name=f"{name}_g{group}", bits=4 + 20 / group) for name in ("awq", "gptq") for group in (32, 64)),
    WeightFormat(name="bnb_4bit", bits=4 + 32 / 64),  # bitsandbytes: an fp32 scale per 64 weights
    WeightFormat(name="bnb_4bit_double", bits=4 + 8 / 64 + 32 / (64 * 256)),  # the scales in eight bits
    WeightFormat(name="mxfp4", bits=4 + 8 / 32, padded=True),  # an 8-bit exponent per 32 weights
    WeightFormat(name="nvfp4", bits=4 + 8 / 16),  # an fp8 scale per 16 weights
    *(
        WeightFormat(name=name, bits=bits, gguf=name)
        for name, bits in (
            ("q8_0", 8.5),
            ("q6_k", 6.5625),
            ("q5_k_m", 5.5),
            ("q5_k_s", 5.5),
            ("q4_k_m", 4.5),
            ("q4_k_s", 4.5),
            ("q4_0", 4.5),
            ("q5_0", 5.5),
            ("iq4_xs", 4.25),
            ("q3_k_m", 3.4375),
            ("q3_k_s", 3.4375),
            ("q2_k", 2.625),
        )
    ),
)
WEIGHT_FORMATS: Mapping[str, WeightFormat] = {known.name: known for known in _FORMATS}
_ALIASES = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "fp8_e4m3": "fp8",
    "block_fp8": "fp8_block", "w8a8": "int8", "int4": "int4_wo", "w4a16": "int4_wo", "gptq_int4": "gptq",
    "fp4": "nvfp4",
}  # fmt: skip


def unknown_format(what: str, name: str, shown: Collection[str], others: Collection[str] = ()) -> UnknownNameError:
    """Return the refusal of a format of weights, with what to name instead of a sparse one."""
    sparse = "2:4 sparsity is not modelled: name the format of the dense weights. " if "sparse" in name.lower() else ""
    return UnknownNameError(what, name, (*shown, *others), hint=f"{sparse}Known: {', '.join(shown)}.")


def find_weight_format(name: str) -> WeightFormat:
    """Return a weight format by its name, in either case, with hyphens or underscores."""
    word = name.lower().replace("-", "_")
    found = WEIGHT_FORMATS.get(_ALIASES.get(word, word))
    if found is None:
        raise unknown_format("weight format", name, WEIGHT_FORMATS)
    return found
