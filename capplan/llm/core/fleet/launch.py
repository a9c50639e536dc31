"""Commands that launch a deployment in vLLM, SGLang, TensorRT-LLM or llama.cpp, with the reason of every option."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from capplan.core.engine_names import Engine
from capplan.core.gpus.machines import HostArchitecture
from capplan.core.launch_files import Renaming, form_lines, form_words
from capplan.llm.core.architecture import DraftHead, RotaryPositions
from capplan.llm.core.kv import kv_element_bytes
from capplan.llm.core.serving.asked import DrafterKind, Speculation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.weights import Adapters
from capplan.llm.core.yarn import override

_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineForm:
    """The command of an engine as forms, whose `options` and `place` hold an option a line with its reason."""

    program: str
    port: int
    options: str
    place: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineForms:
    """The commands of all engines, what their readers have to do first (`notes`), and what engines call a thing."""

    notes: str
    words: Mapping[str, Renaming]
    engines: Mapping[Engine, EngineForm]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is to be launched: one replica.

    `is_own_format` says that the checkpoint is stored in the format of `weights`, `is_half` that it runs in fp16,
    as the GPU has no bf16 arithmetic, `has_own_head` that it holds a layer for multi-token prediction. `token_budget`
    is that of a step of one rank, `planned_len` the tokens that memory holds of a sequence on average.
    `draft_head` is None for a draft model that answers by itself. `assumes_length`: nothing is stated of lengths.
    """

    engine: Engine
    model: str
    sharding: Sharding
    weights: str
    is_own_format: bool
    kv: str
    max_len: int
    max_sequences: int
    token_budget: int
    memory_fraction: float | None = None
    prefix_fraction: float = 0.0
    speculation: Speculation | None = None
    draft_checkpoint: str = ""
    draft_head: DraftHead | None = None
    is_half: bool = False
    adapters: Adapters | None = None
    servers: int = 1
    own_code: bool = False
    has_own_head: bool = False
    rotary: RotaryPositions | None = None
    planned_len: int | None = None
    assumes_length: bool = False
    length_why: str = "tokens of the longest prompt and answer; a longer one is refused instead of taking memory"
    host: HostArchitecture = HostArchitecture.X86

    @property
    def server_gpus(self) -> int:
        return self.sharding.gpus // self.servers


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOption:
    """One option of a launch command: its words, and why it stands there. A flag has no value."""

    option: str
    value: str | None
    why: str

    @property
    def words(self) -> tuple[str, ...]:
        return (self.option,) if self.value is None else (self.option, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command that starts one replica; `files` are written beside it, by name. `notes` say what to do first.

    Where the replica is spread over several servers, the command is that of the first one, which has the shared options
    and those of its place.
    """

    setting: Setting
    form: EngineForm
    words: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def engine(self) -> Engine:
        return self.setting.engine

    @property
    def port(self) -> int:
        return self.form.port

    @property
    def program(self) -> tuple[str, ...]:
        return (*" ".join(form_lines(self.form.program, self.words)).split(), self.setting.model)

    @property
    def shared_options(self) -> tuple[LaunchOption, ...]:
        return _options(self.form.options, self.words)

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        lines = {name: form_lines(text, self.words) for name, text in self.form.files.items()}
        return tuple((name, "".join(f"{line}\n" for line in text)) for name, text in lines.items())

    def place_options(self, place: Mapping[str, str]) -> tuple[LaunchOption, ...]:
        """Return the options that tell a server of a replica its place; none where the replica stands in one.

        A place is the address of the first server (`head`), the server's own `number` from 0, the `first_rank` of data
        parallelism that it holds, and `further`, which is empty for the first one. vLLM's ranks of data parallelism are
        divided among the servers; other replicas are one group over them.
        """
        if self.setting.servers == 1:
            return ()
        return _options(self.form.place, {**self.words, **place})

    @property
    def options(self) -> tuple[LaunchOption, ...]:
        return (*self.shared_options, *self.place_options(_places(self.setting)[0]))

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.program, *_words(self.options))

    @property
    def command(self) -> str:
        return shlex.join(self.arguments)

    @property
    def other_options(self) -> tuple[tuple[str, ...], ...]:
        """Return for each further server the words that take the place of the first one's own; none under MPI."""
        if not self.form.place:
            return ()
        return tuple(tuple(_words(self.place_options(place))) for place in _places(self.setting)[1:])

    @property
    def commands(self) -> tuple[str, ...]:
        shared = (*self.program, *_words(self.shared_options))
        return (self.command, *(shlex.join((*shared, *words)) for words in self.other_options))


def _words(options: Iterable[LaunchOption]) -> Iterator[str]:
    return (word for option in options for word in option.words)


def _options(form: str, words: Mapping[str, str]) -> tuple[LaunchOption, ...]:
    """Read options from the lines of a form: the option, its value, and the reason behind a sharp."""
    parts = [line.partition("  # ") for line in form_lines(form, words)]
    named = [(*head.partition(" ")[::2], why) for head, _, why in parts]
    return tuple(LaunchOption(option=option, value=value or None, why=why) for option, value, why in named)


def launch(setting: Setting, forms: EngineForms) -> Launch:
    form = forms.engines[setting.engine]
    words = form_words({**_facts(setting), "port": form.port}, forms.words)
    return Launch(setting=setting, form=form, words=words, notes=tuple(form_lines(forms.notes, words)))


def _places(setting: Setting) -> list[dict[str, str]]:
    ranks = setting.sharding.data // setting.servers
    return [
        {"head": "HEAD", "number": str(number), "first_rank": str(number * ranks), "further": "true" if number else ""}
        for number in range(setting.servers)
    ]


_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The sizes that vLLM takes for `--max-lora-rank` (`MaxLoRARanks` in its config/lora.py, 0.33)."""
_SGLANG_PREFILL_TOKENS = 16384
"""SGLang's `--max-prefill-tokens`, which bounds the prompts of a step beside `--chunked-prefill-size`."""
_UNNAMED_DRAFT = "DRAFT"
"""What stands for the checkpoint of a head that has no name here."""


def _facts(setting: Setting) -> dict[str, object]:
    """Return the words of a setting by which forms are filled, and its conditions."""
    sharding, servers, adapters, rotary = setting.sharding, setting.servers, setting.adapters, setting.rotary
    offload, engine, share = sharding.offload, setting.engine, setting.prefix_fraction
    converts = engine in (Engine.VLLM, Engine.SGLANG)
    online = "fp8" if converts and setting.weights == "fp8" and not setting.is_own_format else None
    size, lengths = kv_element_bytes(setting.kv), (setting.max_len, setting.planned_len or setting.max_len)
    times = f"stores {size:g} bytes an element instead of 2, so that {2 / size:.2g} times as many tokens fit"
    longest, planned = (-(-tokens // _BLOCK_TOKENS) * _BLOCK_TOKENS for tokens in lengths)
    fits_itself, left = offload is not None and sharding.pipeline > 1, offload and (offload.expert_layers or None)
    gpu_layers = None if offload is None or fits_itself else offload.gpu_layers
    return {
        "engine": engine.value, "model": setting.model, "weights": setting.weights, "tensor": sharding.tensor,
        "pipeline": sharding.pipeline, "data": sharding.data, "expert": sharding.expert, "gpus": sharding.gpus,
        "stage_gpus": sharding.tensor * sharding.data, "servers": servers, "server_gpus": setting.server_gpus,
        "hosts": ",".join(f"SERVER{number}:{setting.server_gpus}" for number in range(servers)),
        "max_len": setting.max_len, "length_why": setting.length_why, "max_sequences": setting.max_sequences,
        # each rank of attention data parallelism schedules its own sequences
        "rank_sequences": -(-setting.max_sequences // sharding.data), "token_budget": setting.token_budget,
        "stage_budget": setting.token_budget * sharding.data, "memory_fraction": setting.memory_fraction,
        "fit": "sequences of prompt and answer that keep the limits in the plan", "online": online,
        "cache": setting.kv if size < 2 else None, "is_fp8_cache": setting.kv.startswith("fp8"),
        "cache_why": "halves the cache, so that twice as many tokens fit" if size == 1 else times,
        "rope_parameters": rotary and override("rope_parameters", rotary), "rope_trained": rotary and rotary.trained,
        "rope_scaling": rotary and override("rope_scaling", rotary), "rope_factor": rotary and f"{rotary.factor:g}",
        "adapters": adapters and adapters.count, "adapter_rank": adapters and adapters.rank,
        "lora_slot": adapters and next((rank for rank in _LORA_RANKS if rank >= adapters.rank), adapters.rank),
        "reuses": f"{share:.0%}" if share else None, "local_ranks": sharding.data // servers,
        "gpu_layers": gpu_layers, "host_experts": left and sharding.pipeline == 1 and left,
        "longest": longest, "planned": planned, "slot_tokens": max(longest, planned * setting.max_sequences),
        "pipelined": sharding.pipeline > 1, "ranked": sharding.data > 1, "shares_matrices": sharding.tensor > 1,
        "spreads_experts": sharding.expert > 1, "several": servers > 1, "multiple": sharding.gpus > 1,
        "own_code": setting.own_code, "is_half": setting.is_half, "stretched": rotary is not None,
        "above_prefill": setting.token_budget > _SGLANG_PREFILL_TOKENS, "fits_itself": fits_itself,
        "all_layers": not fits_itself and gpu_layers is None, "assumes_length": setting.assumes_length,
        "ranks_divide": sharding.data > 1 and sharding.data % servers == 0,
        "other_format": not setting.is_own_format and setting.weights not in ("bf16", "fp16", "fp32") and not online,
        "is_llamacpp": engine is Engine.LLAMACPP, "is_trtllm": engine is Engine.TRTLLM,
        "is_arm": setting.host is HostArchitecture.ARM, **_drafting(setting, is_set=converts),
    }  # fmt: skip


def _drafting(setting: Setting, *, is_set: bool) -> dict[str, object]:
    """Return the words of what drafts; `is_set` says that the command makes the engine draft."""
    draft, drafter, speculation = None, None, setting.speculation
    if speculation is not None:
        kind, head = speculation.drafter.kind, setting.draft_head
        if kind is DrafterKind.MODEL:
            drafter = "whole" if head is None else "parallel" if head.is_parallel else "chain"
        elif kind is DrafterKind.HEAD and setting.has_own_head:
            drafter = "own_head"
        else:
            drafter = kind.value
        if drafter not in ("ngram", "own_head"):
            draft = setting.draft_checkpoint or _UNNAMED_DRAFT
    drafts = None if speculation is None else speculation.drafts
    return {
        "drafter": drafter, "draft": draft, "quoted_draft": json.dumps(draft), "drafts": drafts,
        "verified": None if drafts is None else drafts + 1, "unnamed_draft": is_set and draft == _UNNAMED_DRAFT,
        "drafts_nothing": speculation is not None and not is_set,
    }  # fmt: skip
