"""A language model as it was found, and conditions that filter them, such as `params < 40B and moe = yes`."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from capplan.core.weights import find_weight_format
from capplan.errors import UnknownNameError, UsageError
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.kv import stage_cache
from capplan.llm.core.layers import LatentAttention
from capplan.llm.core.quantisation import Quantisation, default_quantisation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.weights import Adapters


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """The facts of one model.

    `dtype` is the format of what its checkpoint does not quantise. `quantisation` is the checkpoint's own, None for
    a plain one. `declares_fp8_cache` says that the checkpoint holds scales for an fp8 KV cache. `exact_bytes` is the
    sum over a file's header of all tensors that are served, None where sizes follow from the configuration alone.
    `stored_bytes` are the same bytes by the format that they are stored in.
    `missing_files` counts the files that its index names and its folder lacks.
    `source` says where the facts were read, `check` against what they were checked. `origin` says at which revision a
    name of the Hub was read, or that the built-in entry stands for it; `adapter_rank` that it names an adapter.
    """

    architecture: Architecture
    dtype: str
    quantisation: Quantisation | None
    source: str
    declares_fp8_cache: bool = False
    exact_bytes: int | None = None
    missing_files: int = 0
    check: str | None = None
    hf_id: str | None = None
    origin: str | None = None
    stored_bytes: Mapping[str, int] = field(default_factory=dict, hash=False)
    adapter_rank: int | None = None

    @property
    def own_quantisation(self) -> Quantisation:
        return self.quantisation or default_quantisation(self.architecture, find_weight_format(self.dtype))

    def served_adapters(self, stated: Adapters | None) -> Adapters | None:
        return stated or (Adapters(count=1, rank=self.adapter_rank) if self.adapter_rank else None)

    def stored_as(self, weights: str | None) -> Quantisation:
        """Return how weights are stored in a format, with the checkpoint's own roles if the format is its own.

        Block-scaled fp8 is what fp8 means for a model whose checkpoint is in it.
        """
        own = self.own_quantisation
        if weights is None:
            return own
        wanted = find_weight_format(weights)
        same = {wanted.name, own.format.name} <= {"fp8", "fp8_block"} or wanted == own.format
        return own if same else default_quantisation(self.architecture, wanted)


Value = float | str | bool | None

_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
_CONDITION = re.compile(r"\s*([a-z_-]+)\s*(<=|>=|!=|=|<|>)\s*(.+?)\s*", re.IGNORECASE)


def kv_bytes_per_token(model: LanguageModel) -> float:
    """Return the bytes that one token adds to a 16-bit cache on one GPU, in every layer's window. [bytes]"""
    return stage_cache(model.architecture, sharding=Sharding(), element_bytes=2.0).bytes_per_token


def attention_kind(model: LanguageModel) -> str:
    """Return what the attention of a model is: mla, hybrid (with linear attention), windows, or full."""
    mixers = [layer.mixer for layer in model.architecture.layers]
    cache = stage_cache(model.architecture, sharding=Sharding(), element_bytes=2.0)
    if cache.state_bytes:
        return "hybrid"
    if any(isinstance(mixer, LatentAttention) for mixer in mixers):
        return "mla"
    return "windows" if cache.windows else "full"


FACTS: Mapping[str, Callable[[LanguageModel], Value]] = {
    "name": lambda model: model.architecture.name,
    "params": lambda model: count_parameters(model.architecture),
    "active": lambda model: count_active_parameters(model.architecture),
    "layers": lambda model: len(model.architecture.layers),
    "hidden": lambda model: model.architecture.hidden_dim,
    "vocab": lambda model: model.architecture.vocab_size,
    "context": lambda model: model.architecture.max_positions,
    "kv": kv_bytes_per_token,
    "attention": attention_kind,
    "moe": lambda model: model.architecture.is_moe,
    "images": lambda model: model.architecture.vision is not None or model.architecture.vision_note is not None,
    "weights": lambda model: model.own_quantisation.format.name,
    "family": lambda model: model.architecture.family,
}
"""What conditions may name: numbers, texts, and yes or no."""


def select_models(models: Iterable[LanguageModel], conditions: Iterable[str]) -> list[LanguageModel]:
    tests = [_test(part) for text in conditions for part in re.split(r"\s+and\s+", text.strip(), flags=re.IGNORECASE)]
    return [model for model in models if all(test(model) for test in tests)]


def _test(text: str) -> Callable[[LanguageModel], bool]:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a condition; write it as 'params < 40B' or 'moe = yes'.")
    name, sign, wanted = match[1].lower(), match[2], match[3].strip("'\"")
    if name not in FACTS:
        raise UnknownNameError("fact of a model", name, FACTS, hint=f"Known: {', '.join(FACTS)}.")
    fact = FACTS[name]
    return lambda model: _holds(fact(model), sign, wanted, text)


def _holds(value: Value, sign: str, wanted: str, text: str) -> bool:
    if value is None:
        return False
    if isinstance(value, bool):
        if wanted.lower() not in ("yes", "no", "true", "false"):
            raise UsageError(f"{text!r}: the value is yes or no.")
        yes = wanted.lower() in ("yes", "true")
        return _SIGNS[sign](float(value), float(yes))
    if isinstance(value, str):
        if sign not in ("=", "!="):
            raise UsageError(f"{text!r}: texts are compared with = and != alone.")
        return (value.lower() == wanted.lower()) == (sign == "=")
    return _SIGNS[sign](float(value), _number(wanted, text))


def _number(wanted: str, text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmbt]?)", wanted.lower().replace("_", ""))
    if match is None:
        raise UsageError(f"{text!r}: write a number such as 8192, 70B or 128k.")
    return float(match[1]) * _SCALES[match[2]]
