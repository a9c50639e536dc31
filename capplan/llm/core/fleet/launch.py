"""Commands that launch a deployment in vLLM, SGLang, TensorRT-LLM or llama.cpp, with the reason of every option."""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from capplan.core.engine_names import Engine
from capplan.core.gpus.machines import HostArchitecture
from capplan.llm.core.architecture import DraftHead, RotaryPositions
from capplan.llm.core.kv import kv_element_bytes
from capplan.llm.core.serving.asked import DrafterKind, Speculation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.weights import Adapters
from capplan.llm.core.yarn import override

PORTS: Mapping[Engine, int] = {Engine.VLLM: 8000, Engine.SGLANG: 30000, Engine.TRTLLM: 8000, Engine.LLAMACPP: 8080}
"""The port that each engine's server listens on by default."""
_BLOCK_TOKENS = 16


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
class ServerPlace:
    """The words by which one server of a replica knows its place among them.

    `head` is the address of the first server, `number` its own place, from 0, and `first_rank` the number of its first
    rank of data parallelism.
    """

    head: str
    number: str
    first_rank: str
    is_first: bool


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
    program: tuple[str, ...]
    shared_options: tuple[LaunchOption, ...]
    port: int
    files: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def engine(self) -> Engine:
        return self.setting.engine

    @property
    def options(self) -> tuple[LaunchOption, ...]:
        return (*self.shared_options, *place_options(self.setting, _places(self.setting)[0]))

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.program, *_words(self.options))

    @property
    def command(self) -> str:
        return shlex.join(self.arguments)

    @property
    def other_options(self) -> tuple[tuple[str, ...], ...]:
        """Return for each further server the words that take the place of the first one's own; none under MPI."""
        if self.engine is Engine.TRTLLM:
            return ()
        return tuple(tuple(_words(place_options(self.setting, place))) for place in _places(self.setting)[1:])

    @property
    def commands(self) -> tuple[str, ...]:
        shared = (*self.program, *_words(self.shared_options))
        return (self.command, *(shlex.join((*shared, *words)) for words in self.other_options))


def _words(options: Iterable[LaunchOption]) -> Iterator[str]:
    return (word for option in options for word in option.words)


def launch(setting: Setting) -> Launch:
    program, options = _ENGINES[setting.engine]
    return Launch(
        setting=setting,
        program=(*_starter(setting), *program, setting.model),
        shared_options=tuple(options(setting)),
        port=PORTS[setting.engine],
        files=_files(setting),
        notes=tuple(_notes(setting)),
    )


def _notes(setting: Setting) -> Iterator[str]:
    if setting.assumes_length:
        yield f"Requests of more than {setting.max_len} tokens are refused: ⟨input-p99⟩ states how long prompts get."
    ready = {"bf16", "fp16", "fp32"}
    if not setting.is_own_format and setting.weights not in ready and _online_format(setting) is None:
        yield f"The checkpoint is not stored in {setting.weights}: name one that is in place of {setting.model}."
    if setting.engine is Engine.LLAMACPP:
        yield "llama.cpp reads GGUF files: convert the checkpoint, or name a file that was published."
        if setting.sharding.tensor > 1:
            yield "llama.cpp calls its split by tensor experimental: compare a few answers with those of one GPU."
    if setting.speculation is not None:
        if setting.engine in (Engine.VLLM, Engine.SGLANG):
            if _draft_checkpoint(setting) == _UNNAMED_DRAFT:
                yield "Speculation needs a draft model or head for this checkpoint: name it in place of DRAFT."
        else:
            drafts = setting.speculation.drafts
            yield f"The command drafts nothing: add {setting.engine.value}'s settings of a model that drafts {drafts}."
    if setting.own_code:
        yield f"The checkpoint's repository holds code that the engine runs: read {setting.model} before you trust it."
    if setting.host is HostArchitecture.ARM:
        yield "The CPUs of these servers are Arm: take images and wheels that are built for arm64 (aarch64)."
    if setting.servers > 1:
        if setting.engine is Engine.TRTLLM:
            yield "MPI starts the ranks: write the servers' addresses for SERVER0 and the others, which SSH must join."
        else:
            yield f"Each of the replica's {setting.servers} servers has a command; {_HEAD} is the first one's address."


def _online_format(setting: Setting) -> str | None:
    """Return the format into which the engine converts a 16-bit checkpoint when it loads it; None for none."""
    converts = setting.engine in (Engine.VLLM, Engine.SGLANG)
    return "fp8" if converts and setting.weights == "fp8" and not setting.is_own_format else None


def _cache(setting: Setting) -> tuple[str, str] | None:
    """Return the format of a cache that is narrower than 16 bits, and what it is for; None for the default."""
    size = kv_element_bytes(setting.kv)
    if size >= 2:
        return None
    if size == 1:
        return setting.kv, "halves the cache, so that twice as many tokens fit"
    return setting.kv, f"stores {size:g} bytes an element instead of 2, so that {2 / size:.2g} times as many tokens fit"


_HEAD = "HEAD"
"""What stands for the address of the first server of a replica."""
_DATA_PORT, _START_PORT = 13345, 20000
"""The ports by which servers of a replica find one another: examples of vLLM's documentation (data parallel deployment)
and SGLang's (multi-node deployment)."""


def _places(setting: Setting) -> tuple[ServerPlace, ...]:
    ranks = setting.sharding.data // setting.servers
    return tuple(
        ServerPlace(head=_HEAD, number=str(number), first_rank=str(number * ranks), is_first=number == 0)
        for number in range(setting.servers)
    )


def _starter(setting: Setting) -> tuple[str, ...]:
    """Return the words before a program whose ranks MPI starts on all servers of a replica."""
    if setting.engine is not Engine.TRTLLM or setting.servers == 1:
        return ()
    hosts = ",".join(f"SERVER{number}:{setting.server_gpus}" for number in range(setting.servers))
    return ("mpirun", "-n", str(setting.sharding.gpus), "-H", hosts, "trtllm-llmapi-launch")


def place_options(setting: Setting, place: ServerPlace) -> Iterator[LaunchOption]:
    """Yield the options that tell a server of a replica its place; none where the replica stands in one.

    vLLM's ranks of data parallelism are divided among the servers; other replicas are one group over them. (vLLM,
    docs/serving/parallelism_scaling.md and data_parallel_deployment.md; SGLang, multi-node deployment.)
    """
    if setting.servers == 1 or setting.engine is Engine.TRTLLM:
        return
    servers, data = setting.servers, setting.sharding.data
    if setting.engine is Engine.VLLM and data > 1 and data % servers == 0:
        yield _option("--data-parallel-size-local", data // servers, "ranks of them on this server")
        if not place.is_first:
            yield _option("--data-parallel-start-rank", place.first_rank, "the number of its first rank")
        yield _option("--data-parallel-address", place.head, "the address of the first server")
        yield _option("--data-parallel-rpc-port", _DATA_PORT, "a free port there, the same for all servers")
    else:
        yield _option("--nnodes", servers, "servers that share the replica")
        yield _option("--node-rank", place.number, "which of them this is")
        if setting.engine is Engine.SGLANG:
            yield _option("--dist-init-addr", f"{place.head}:{_START_PORT}", "the first server and a free port there")
        else:
            yield _option("--master-addr", place.head, "the address of the first server")
    if setting.engine is Engine.VLLM and not place.is_first:
        yield _option("--headless", None, "requests go to the first server alone")


_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The sizes that vLLM takes for `--max-lora-rank` (`MaxLoRARanks` in its config/lora.py, 0.33)."""
_SGLANG_PREFILL_TOKENS = 16384
"""SGLang's `--max-prefill-tokens`, which bounds the prompts of a step beside `--chunked-prefill-size`."""


def _sequences_of_rank(setting: Setting) -> int:
    """Return the sequences at a time of one rank of attention data parallelism, each of which schedules its own."""
    return -(-setting.max_sequences // setting.sharding.data)


_STAGES = "stages that each hold a share of the layers"
_RANKS = "ranks that each keep whole attention for their own sequences"
_EXPERTS = "keeps experts whole and spreads them over the GPUs"
_ONLINE = "converts the 16-bit checkpoint to fp8 when it is loaded"
_FIT = "sequences of prompt and answer that keep the limits in the plan"
_HALF = "runs the checkpoint in fp16, because the GPU has no bf16 arithmetic"
_NO_REUSE = "the plan counts no reuse of prefixes; drop it if prompts share some"
_CODE = "the model or its tokenizer is code of the checkpoint's repository"


_YARN = "stretches the positions by YaRN; answers to short prompts may lose quality"


def _yarn(setting: Setting, key: str) -> str | None:
    return None if setting.rotary is None else override(key, setting.rotary)


def _vllm(setting: Setting) -> Iterator[LaunchOption]:
    sharding, cache, online = setting.sharding, _cache(setting), _online_format(setting)
    yield _option("--tensor-parallel-size", sharding.tensor, "GPUs that share every matrix of a replica")
    yield from _if(sharding.pipeline > 1, "--pipeline-parallel-size", sharding.pipeline, _STAGES)
    yield from _if(sharding.data > 1, "--data-parallel-size", sharding.data, _RANKS)
    yield from _if(sharding.expert > 1, "--enable-expert-parallel", None, _EXPERTS)
    yield from _if(setting.own_code, "--trust-remote-code", None, _CODE)
    yield from _if(setting.is_half, "--dtype", "half", _HALF)
    if (yarn := _yarn(setting, "rope_parameters")) is not None:
        yield _option("--hf-overrides", yarn, _YARN)
    yield _option("--max-model-len", setting.max_len, setting.length_why)
    yield _option("--max-num-seqs", _sequences_of_rank(setting), f"most sequences at a time: {_FIT}")
    yield _option("--max-num-batched-tokens", setting.token_budget, "tokens of a step that the times were computed for")
    fraction = setting.memory_fraction
    yield from _if(fraction is not None, "--gpu-memory-utilization", fraction, "share of each GPU that the plan filled")
    yield from _if(online is not None, "--quantization", online, _ONLINE)
    if cache is not None:
        yield _option("--kv-cache-dtype", *cache)
    if setting.adapters is not None:
        yield _option("--enable-lora", None, "serves adapters beside the model")
        yield _option("--max-loras", setting.adapters.count, "adapters in one step, all of which stay resident")
        slot = next((rank for rank in _LORA_RANKS if rank >= setting.adapters.rank), setting.adapters.rank)
        yield _option("--max-lora-rank", slot, "the largest rank of an adapter, as a size that vLLM takes")
    if share := setting.prefix_fraction:
        why = f"reuses the cache of equal prefixes; {share:.0%} of a prompt planned"
        yield _option("--enable-prefix-caching", None, why)
    else:
        yield _option("--no-enable-prefix-caching", None, _NO_REUSE)
    if setting.speculation is not None:
        drafts = setting.speculation.drafts
        config = {**_vllm_drafter(setting.speculation, setting), "num_speculative_tokens": drafts}
        yield _option("--speculative-config", json.dumps(config), f"drafts {drafts} tokens a step, as planned")


def _if(holds: bool, name: str, value: object, why: str) -> Iterator[LaunchOption]:
    if holds:
        yield _option(name, value, why)


def _option(name: str, value: object, why: str) -> LaunchOption:
    """Return an option; a flag, which has no value, for None."""
    return LaunchOption(option=name, value=None if value is None else str(value), why=why)


def _served(engine: Engine) -> Iterator[LaunchOption]:
    yield _option("--host", "0.0.0.0", "listens on every address; the default is the local one")
    yield _option("--port", PORTS[engine], "the port of the service")


_UNNAMED_DRAFT = "DRAFT"
"""What stands for the checkpoint of a head that has no name here."""


def _draft_checkpoint(setting: Setting) -> str | None:
    """Return the checkpoint of what drafts; None where the model's own layer or n-grams do, or nothing is drafted."""
    if setting.speculation is None:
        return None
    kind = setting.speculation.drafter.kind
    if kind is DrafterKind.NGRAM or (kind is DrafterKind.HEAD and setting.has_own_head):
        return None
    return setting.draft_checkpoint or _UNNAMED_DRAFT


def _vllm_drafter(speculation: Speculation, setting: Setting) -> dict[str, object]:
    """Return what drafts, as vLLM's configuration of speculation names it (`SpeculativeMethod`, 0.33)."""
    checkpoint: dict[str, object] = {} if (named := _draft_checkpoint(setting)) is None else {"model": named}
    match speculation.drafter.kind:
        case DrafterKind.NGRAM:
            return {"method": "ngram", "prompt_lookup_max": speculation.drafts}
        case DrafterKind.HEAD:
            return checkpoint or {"method": "mtp"}
        case DrafterKind.EAGLE3:
            return {"method": "eagle3", **checkpoint}
        case DrafterKind.MODEL:
            head = setting.draft_head
            return {"method": _named_method(head, parallel="dflash", chain="eagle3", whole="draft_model"), **checkpoint}


def _named_method(head: DraftHead | None, *, parallel: str, chain: str, whole: str) -> str:
    """Return an engine's word for what drafts: a head that drafts at once, one that drafts a chain, a whole model."""
    if head is None:
        return whole
    return parallel if head.is_parallel else chain


def _sglang(setting: Setting) -> Iterator[LaunchOption]:
    sharding = setting.sharding
    yield _option("--tp-size", sharding.tensor * sharding.data, "GPUs of a stage; ranks of data parallelism count in")
    yield from _if(sharding.pipeline > 1, "--pp-size", sharding.pipeline, _STAGES)
    yield from _if(sharding.data > 1, "--dp-size", sharding.data, _RANKS)
    yield from _if(sharding.data > 1, "--enable-dp-attention", None, "makes these ranks share the experts")
    yield from _if(sharding.expert > 1, "--ep-size", sharding.expert, _EXPERTS)
    yield from _if(setting.own_code, "--trust-remote-code", None, _CODE)
    yield from _if(setting.is_half, "--dtype", "half", _HALF)
    if (yarn := _yarn(setting, "rope_scaling")) is not None:
        yield _option("--json-model-override-args", yarn, _YARN)
    yield _option("--context-length", setting.max_len, setting.length_why)
    yield _option("--max-running-requests", setting.max_sequences, f"most sequences at a time: {_FIT}")
    budget, fraction, online = setting.token_budget, setting.memory_fraction, _online_format(setting)
    why = "prompt tokens of a step that the times were computed for, of all ranks together"
    yield _option("--chunked-prefill-size", budget * sharding.data, why)
    more = budget > _SGLANG_PREFILL_TOKENS
    yield from _if(more, "--max-prefill-tokens", budget, "lets a step hold as many prompt tokens")
    yield from _if(fraction is not None, "--mem-fraction-static", fraction, "share of each GPU for weights and cache")
    yield from _if(online is not None, "--quantization", online, _ONLINE)
    if (cache := _cache(setting)) is not None:
        name, why = cache
        yield _option("--kv-cache-dtype", "fp8_e4m3" if name == "fp8" else name, why)
    if setting.adapters is not None:
        yield _option("--enable-lora", None, "serves adapters beside the model")
        count = setting.adapters.count
        yield _option("--max-loras-per-batch", count, "adapters in one step, all of which stay resident")
        yield _option("--max-lora-rank", setting.adapters.rank, "the largest rank of an adapter")
        yield _option("--lora-target-modules", "all", "makes room for adapters of every dense matrix, as planned")
    yield from _if(not setting.prefix_fraction, "--disable-radix-cache", None, _NO_REUSE)
    if setting.speculation is not None:
        yield from _sglang_speculation(setting.speculation, setting)
    yield from _served(Engine.SGLANG)


def _sglang_speculation(speculation: Speculation, setting: Setting) -> Iterator[LaunchOption]:
    """Yield what makes SGLang draft (documentation, "Speculative decoding")."""
    drafts, checkpoint, head = speculation.drafts, _draft_checkpoint(setting), setting.draft_head
    match speculation.drafter.kind:
        case DrafterKind.NGRAM:
            algorithm, why = "NGRAM", "drafts what followed the same words before"
        case DrafterKind.HEAD if checkpoint is None:
            algorithm, why = "NEXTN", "drafts with the layer that the checkpoint holds for it"
        case DrafterKind.HEAD:
            algorithm, why = "EAGLE", "drafts with a head of one layer"
        case DrafterKind.EAGLE3:
            algorithm, why = "EAGLE3", "drafts with a head that reads three layers of the model"
        case DrafterKind.MODEL:
            algorithm = _named_method(head, parallel="DFLASH", chain="EAGLE3", whole="STANDALONE")
            why = "drafts with the model or head that is named"
    yield _option("--speculative-algorithm", algorithm, why)
    named = checkpoint is not None
    yield from _if(named, "--speculative-draft-model-path", checkpoint, "the model or head that drafts")
    if algorithm not in ("NGRAM", "DFLASH"):
        yield _option("--speculative-num-steps", drafts, "steps of what drafts, each of which drafts a token")
        yield _option("--speculative-eagle-topk", 1, "drafts one chain of tokens instead of a tree")
    yield _option("--speculative-num-draft-tokens", drafts + 1, f"verifies {drafts} drafts and one token a step")


def _trtllm(setting: Setting) -> Iterator[LaunchOption]:
    sharding = setting.sharding
    yield _option("--tp_size", sharding.tensor * sharding.data, "GPUs of a stage; ranks of data parallelism count in")
    yield from _if(sharding.pipeline > 1, "--pp_size", sharding.pipeline, _STAGES)
    yield from _if(sharding.expert > 1, "--ep_size", sharding.expert, _EXPERTS)
    yield from _if(setting.own_code, "--trust_remote_code", None, _CODE)
    yield from _if(setting.servers > 1, "--gpus_per_node", setting.server_gpus, "GPUs of the replica in each server")
    yield _option("--max_seq_len", setting.max_len, setting.length_why)
    yield _option("--max_batch_size", _sequences_of_rank(setting), f"most sequences at a time: {_FIT}")
    yield _option("--max_num_tokens", setting.token_budget, "tokens of a step that the times were computed for")
    fraction, why = setting.memory_fraction, "share of what weights and workspaces leave free that the cache takes"
    yield from _if(fraction is not None, "--kv_cache_free_gpu_memory_fraction", fraction, why)
    yield _option("--extra_llm_api_options", "extra.yaml", "settings that have no option of their own")
    yield from _served(Engine.TRTLLM)


_TRTLLM_MODULES = ("attn_q", "attn_k", "attn_v", "attn_dense", "mlp_h_to_4h", "mlp_gate", "mlp_4h_to_h")
"""The dense matrices of a layer as TensorRT-LLM names them (documentation, "LoRA module id mapping")."""


def _files(setting: Setting) -> tuple[tuple[str, str], ...]:
    if setting.engine is not Engine.TRTLLM:
        return ()
    lines = []
    if setting.sharding.data > 1:
        lines.append("enable_attention_dp: true  # each rank keeps whole attention for its own sequences")
    lines.append("kv_cache_config:")
    lines.append(f"  enable_block_reuse: {'true' if setting.prefix_fraction else 'false'}  # prefixes, as planned")
    if (cache := _cache(setting)) is not None:
        name, why = cache
        lines.append(f"  dtype: {'fp8' if name.startswith('fp8') else name}  # {why}")
    if (yarn := _yarn(setting, "rope_scaling")) is not None:
        lines.append(f"model_kwargs: {yarn}  # {_YARN}")
    if setting.adapters is not None:
        lines += [
            "lora_config:  # serves adapters beside the model",
            f"  max_loras: {setting.adapters.count}  # adapters in one step, all of which stay resident",
            f"  max_lora_rank: {setting.adapters.rank}  # the largest rank of an adapter",
            f"  lora_target_modules: [{', '.join(_TRTLLM_MODULES)}]",
        ]
    return (("extra.yaml", "\n".join(lines) + "\n"),)


def _llamacpp(setting: Setting) -> Iterator[LaunchOption]:
    lengths = (setting.max_len, setting.planned_len or setting.max_len)
    longest, planned = (-(-tokens // _BLOCK_TOKENS) * _BLOCK_TOKENS for tokens in lengths)
    offload = setting.sharding.offload
    if offload is not None and setting.sharding.pipeline > 1:
        yield _option("--fit", "on", "divides layers and experts among the GPUs and the host, as the plan did")
    elif offload is None or offload.gpu_layers is None:
        yield _option("-ngl", 999, "puts every layer on the GPUs")
    else:
        why = "puts so many layers on the GPU and leaves the first ones to the host"
        yield _option("-ngl", offload.gpu_layers, why)
    if offload is not None and offload.expert_layers and setting.sharding.pipeline == 1:
        yield _option("--n-cpu-moe", offload.expert_layers, "leaves the experts of so many first layers to the host")
    if setting.sharding.gpus > 1:
        mode, what = ("tensor", "every matrix") if setting.sharding.tensor > 1 else ("layer", "the layers")
        yield _option("--split-mode", mode, f"divides {what} among the GPUs")
    yield _option("-np", setting.max_sequences, f"slots, sequences at a time: {_FIT}")
    if (rotary := setting.rotary) is not None:
        yield _option("--rope-scaling", "yarn", _YARN)
        yield _option("--rope-scale", f"{rotary.factor:g}", "by this factor")
        yield _option("--yarn-orig-ctx", rotary.trained, "positions of the training, which the factor multiplies")
    context = max(longest, planned * setting.max_sequences)
    yield _option("-c", context, f"tokens of all slots together, {planned} each on average")
    yield _option("--kv-unified", None, f"lets slots share them, so that one request may have {longest}")
    yield _option("-b", setting.token_budget, "tokens of a step that the times were computed for")
    yield _option("-fa", "on", "computes attention without storing its matrix")
    if (cache := _cache(setting)) is not None:
        name = "q8_0" if cache[0].startswith("fp8") else cache[0]
        yield _option("-ctk", name, "stores keys in this format")
        yield _option("-ctv", name, "stores values in this format")
    yield from _served(Engine.LLAMACPP)


_ENGINES: Mapping[Engine, tuple[tuple[str, ...], Callable[[Setting], Iterator[LaunchOption]]]] = {
    Engine.VLLM: (("vllm", "serve"), _vllm),
    Engine.SGLANG: (("python", "-m", "sglang.launch_server", "--model-path"), _sglang),
    Engine.TRTLLM: (("trtllm-serve",), _trtllm),
    Engine.LLAMACPP: (("llama-server", "-m"), _llamacpp),
}
"""The words of each engine's program before the model, and what yields its options."""
