"""The parts of questions that several verbs about language models share, and how their words are read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.engine_names import Engine, find_engine
from capplan.core.weights import find_weight_format
from capplan.core.workload import BatchChoice, Batches
from capplan.errors import UsageError
from capplan.hub.names import names_gguf
from capplan.llm.core.kv import kv_element_bytes
from capplan.llm.core.serving.asked import (
    MOST_CLIENTS,
    Drafter,
    DrafterKind,
    Sampling,
    ServingTask,
    Statistic,
    read_clients,
)
from capplan.verbs.statement.contract import Context
from capplan.verbs.statement.fields import EnergyFields, Name, OwnSpecs, from_fields
from capplan.verbs.statement.options import ANYWHERE, HERE, Door, Option, Topic
from capplan.verbs.statement.words import (
    AMOUNT,
    CHANGE,
    PIXELS,
    RATE,
    SHARE,
    SIZE,
    TIME_LIMIT,
    TOKEN_PRICES,
    TOKENS,
    Words,
    write_batches,
)

if TYPE_CHECKING:
    from capplan.app.deployments import Deployments
    from capplan.core.gpus.by_use import ApiPrice
    from capplan.core.power import PowerLaw
    from capplan.llm.core.deployment import NamedDeployment
    from capplan.llm.core.fleet.token_load import TokenLoad
    from capplan.llm.core.model_query import LanguageModel
    from capplan.llm.core.serving.asked import Speculation
    from capplan.llm.core.serving.cases import MeasuredRun
    from capplan.llm.core.sharding import HostOffload, Sharding, ShardingChoice
    from capplan.llm.core.simulation.arrivals import Sessions
    from capplan.llm.core.simulation.load_answer import LatencyLimits
    from capplan.llm.core.timing.engine_rules import SchedulerFlags
    from capplan.llm.core.weights import Adapters

ENGINES = tuple(engine.value for engine in Engine)
SHOWN = ANYWHERE | Door.PAGE
"""A field that the form about serving shows, too."""
SHOWN_AND_SWEPT = SHOWN | Door.SWEEP
"""Such a field that sweeps of served models vary."""
Word = Annotated[str, Meta(max_length=200)]
Degree = Annotated[int, Meta(ge=1, le=10**7)]
_Degrees = Annotated[tuple[Degree, ...], Meta(max_length=16)]
Tokens = Annotated[int, Meta(ge=1, le=10**8)]
_AcceptedShare = Annotated[float, Meta(ge=0, le=1)]


def _write_clients(clients: tuple[int, ...]) -> str:
    return write_batches(Batches(choice=BatchChoice.LISTED, sizes=clients))


CLIENTS = Words(
    python="Sequence[int] | str",
    read=lambda given, what: read_clients([given] if isinstance(given, int) else given, what=what),
    write=_write_clients,
    wire=Annotated[list[Annotated[int, Meta(ge=1, le=MOST_CLIENTS)]], Meta(min_length=1, max_length=64)] | Word,
    to_wire=_write_clients,
)
"""Numbers of clients: 8, 1,8,32 or 1..256 for powers of two."""


def _read_statistic(given: Any, what: str) -> Statistic:
    named = {statistic.value.lstrip("p"): statistic for statistic in Statistic}
    word = str(given).lstrip("p")
    if word not in named:
        raise UsageError(f"{what} {given}: write one of mean, 50, 90, 95 and 99.")
    return named[word]


def _write_statistic(statistic: Statistic) -> str:
    return statistic.value.lstrip("p")


STATISTIC = Words(
    python="int | str", read=_read_statistic, write=_write_statistic, wire=int | Word, to_wire=_write_statistic
)
"""The mean, or a percentile: 99, p99."""


def _known_by(find: Callable[[str], object]) -> Callable[[Any, str], str]:
    """Return a reader of names that a function finds, or refuses."""

    def read(given: Any, what: str) -> str:
        if not isinstance(given, str):
            raise UsageError(f"{what}: expected text, not {given!r}.")
        if given:
            find(given[:200])
        return given

    return read


ENGINE = Words(python="str", read=_known_by(find_engine), wire=Word)
WEIGHTS = Words(python="str", read=_known_by(find_weight_format), wire=Word)
KV_CACHE = Words(python="str", read=_known_by(kv_element_bytes), wire=Word)
"""Names of engines and number formats, which are refused before anything is worked out."""

TIME_CALIBRATION = Option(
    help="Constants from `capplan llm fit`; the shipped ones by default.", metavar="FILE", doors=HERE
)
TRAINING_CALIBRATION = Option(help="Constants of training other than the shipped ones.", metavar="FILE", doors=HERE)


MODEL_OPTION = Option(
    help="A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.",
    served="A name that llm_models lists, such as llama-3.1-8b-instruct.", metavar="MODEL", topic=Topic.MODEL,
    is_argument=True, doors=SHOWN, label="Language model", placeholder="llama-3.1-8b-instruct",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LanguageModelFields:
    """The language model that a question is about."""

    model: Annotated[str, Meta(max_length=1000), MODEL_OPTION]


@dataclass(frozen=True, kw_only=True)
class ReplicaGpuFields:
    """The GPU of a replica."""

    gpu: Annotated[
        Name,
        Option(is_usual=True, help="Exact id or alias of a GPU.", metavar="ID", topic=Topic.GPUS, completes="gpus"),
    ]


@dataclass(frozen=True, kw_only=True)
class OffloadFields:
    """What lies in host memory: layers and experts with llama.cpp, prefixes with the other engines."""

    TOPIC = Topic.HOST

    gpu_layers: Annotated[
        int | None,
        Meta(ge=1, le=10**5),
        Option(
            help="llama.cpp: layers on the GPU, the others in host memory; all by default.",
            flags=("--gpu-layers", "--ngl"), metavar="N",
        ),
    ] = None  # fmt: skip
    n_cpu_moe: Annotated[
        int,
        Meta(ge=0, le=10**5),
        Option(help="llama.cpp: layers whose experts are in host memory.", metavar="N", shows_default=True),
    ] = 0

    fit: Annotated[
        bool, Option(help="llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).")
    ] = False
    kv_offload_bytes: Annotated[
        float,
        Meta(ge=0, le=1e18),
        Option(
            help="Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.",
            flags=("--kv-offload",), metavar="SIZE", words=SIZE,
        ),
    ] = 0.0  # fmt: skip

    def offload(self) -> "HostOffload | None":
        """Return what is left in host memory; None for nothing."""
        from capplan.llm.core.sharding import HostOffload

        leaves = self.gpu_layers is not None or self.n_cpu_moe
        if leaves and self.fit:
            raise UsageError("⟨fit⟩ finds ⟨gpu-layers⟩ and ⟨n-cpu-moe⟩ by itself: leave these out.")
        offload = HostOffload(gpu_layers=self.gpu_layers, expert_layers=self.n_cpu_moe, is_fitted=self.fit)
        return offload if leaves or self.fit else None


_DEGREES = {
    "tp": "GPUs per replica", "pp": "Pipeline stages", "ep": "GPUs that share experts", "dp": "Data-parallel ranks",
}  # fmt: skip


def _degree(
    name: str, words: str, *, is_usual: bool = False, doors: Door = SHOWN, shows_default: bool = True
) -> Option:
    return Option(help=words, label=_DEGREES[name], is_usual=is_usual, doors=doors, shows_default=shows_default)


@dataclass(frozen=True, kw_only=True)
class DeploymentFields(OffloadFields):
    """Number formats, GPUs and engine of one replica."""

    weights: Annotated[
        Word | None,
        Option(
            is_usual=True,
            help="bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default.", metavar="FORMAT",
            words=WEIGHTS, topic=Topic.MODEL, doors=SHOWN_AND_SWEPT, label="Weights",
            placeholder="the checkpoint's; or fp8",
        ),
    ] = None  # fmt: skip
    kv: Annotated[
        Word | None,
        Option(
            is_usual=True, help="Number format of the KV cache: bf16, fp8, q8_0, ...", metavar="FORMAT", words=KV_CACHE,
            doors=SHOWN_AND_SWEPT, label="KV cache", placeholder="the engine's; or fp8",
        ),
    ] = None  # fmt: skip
    tp: Annotated[Degree, _degree("tp", "GPUs that share every matrix.", is_usual=True, doors=SHOWN_AND_SWEPT)] = 1
    pp: Annotated[Degree, _degree("pp", "Pipeline stages.")] = 1
    ep: Annotated[Degree, _degree("ep", "GPUs among which whole experts are distributed.")] = 1
    dp: Annotated[Degree, _degree("dp", "Ranks of attention data parallelism.")] = 1
    engine: Annotated[
        Word | None,
        Option(
            is_usual=True,
            help="vllm, sglang, trtllm or llama.cpp; by default llama.cpp for GGUF files and formats, else vllm.",
            words=ENGINE,
            doors=SHOWN_AND_SWEPT,
            label="Engine",
            placeholder="usual; or sglang",
        ),
    ] = None
    engine_version: Annotated[
        Word | None, Option(help="Version of the engine, such as 0.19; the newest by default.", metavar="VERSION")
    ] = None

    def engine_for(self, model: str) -> Engine:
        """Return the engine that was asked for; by default the one that GGUF files, formats and offload belong to."""
        if self.engine is not None:
            return find_engine(self.engine)
        is_gguf = names_gguf(model) or (self.weights and find_weight_format(self.weights).gguf)
        return Engine.LLAMACPP if is_gguf or self.offload() is not None else Engine.VLLM

    def sharding(self) -> "Sharding":
        """Return how the GPUs of a replica, and the host, share the model."""
        from capplan.llm.core.sharding import Sharding

        return Sharding(tensor=self.tp, pipeline=self.pp, expert=self.ep, data=self.dp, offload=self.offload())


@dataclass(frozen=True, kw_only=True)
class MeasuredRunFields:
    """Measured runs that a deployment is calibrated with."""

    measured: Annotated[
        tuple[Path, ...],
        Option(
            help="A measured run of this deployment: vLLM, SGLang, guidellm or llama-bench JSON, genai-perf CSV, or a "
            "serving CSV; repeatable.",
            metavar="FILE", doors=HERE,
        ),
    ] = ()  # fmt: skip

    def measured_runs(self) -> "tuple[MeasuredRun, ...]":
        """Return the runs of the files."""
        from capplan.llm.read.measured_run import read_measured_run

        return tuple(run for path in self.measured for run in read_measured_run(path))

    def named_runs(self) -> "tuple[MeasuredRun, ...]":
        """Return the runs of the files where several deployments are compared, and those of the team's folder."""
        from capplan.llm.read.measured_run import read_measured_run
        from capplan.specs.folders import own_measured

        runs = tuple(run for path in (*own_measured("*.csv"), *self.measured) for run in read_measured_run(path))
        for run in runs:
            if not run.model:
                raise UsageError(
                    f"{run.file} does not name its model and GPU, so that no deployment of a plan is known to be its "
                    "own; write it as a row of a serving CSV (model, gpu, engine, tp, concurrency, tpot_ms, ...)."
                )
        return runs


@dataclass(frozen=True, kw_only=True)
class AdapterFields:
    """LoRA adapters that are served beside a model."""

    TOPIC = Topic.ADAPTERS

    adapters: Annotated[
        int,
        Meta(ge=0, le=10**5),
        Option(help="LoRA adapters that are resident at a time.", shows_default=True),
    ] = 0
    lora_rank: Annotated[int, Meta(ge=1, le=10**4), Option(help="Rank of the adapters.", shows_default=True)] = 16

    def served_adapters(self) -> "Adapters | None":
        """Return the adapters that are stated; None for none."""
        from capplan.llm.core.weights import Adapters

        return Adapters(count=self.adapters, rank=self.lora_rank) if self.adapters else None


class Prefill(StrEnum):
    """Whether prompts are computed in the steps of decoding, or alone."""

    MIXED = "mixed"
    SEPARATE = "separate"


@dataclass(frozen=True, kw_only=True)
class LinkFields:
    """The links that the GPUs of a replica exchange data over."""

    link_bytes_per_s: Annotated[
        float | None,
        Meta(le=1e18),
        Option(
            help="Both directions of the link between GPUs of a server, such as '900 GB/s'.", flags=("--link",),
            metavar="RATE", words=RATE,
        ),
    ] = None  # fmt: skip
    network_bytes_per_s: Annotated[
        float | None,
        Meta(gt=0, le=1e18),
        Option(
            help="Network of one GPU to other servers, one direction; '50 GB/s' by default.", flags=("--network",),
            metavar="RATE", words=RATE,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CardPowerFields(EnergyFields):
    """Power and energy, by what one's own cards draw."""

    power_calibration: Annotated[
        Path | None,
        Option(
            help="What your own GPUs draw: a file of `capplan calibrate power -o FILE`.", metavar="FILE", doors=HERE
        ),
    ] = None  # fmt: skip

    def power_law(self, *, needed: bool = False) -> "PowerLaw | None":
        """Return the law of power with the factors of one's own cards."""
        law = super().power_law(needed=needed or self.power_calibration is not None)
        if law is None or self.power_calibration is None:
            return law
        from capplan.specs.calibration import load_calibration

        cards = load_calibration(self.power_calibration).power
        if not cards:
            raise UsageError(
                f"{self.power_calibration} holds the power of no card; make one with `capplan calibrate power`."
            )
        return replace(law, cards=cards)


@dataclass(frozen=True, kw_only=True)
class HostCpuFields:
    """The CPU that computes what is left in host memory."""

    TOPIC = Topic.HOST

    cpu: Annotated[
        Name | None,
        Option(
            help="CPU of the host, for ⟨gpu-layers⟩ and ⟨n-cpu-moe⟩ (`capplan gpus --cpus`); a desktop's by default.",
            metavar="ID",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MemoryFractionFields:
    """The engine's memory fraction."""

    utilization_fraction: Annotated[
        float | None,
        Meta(ge=0.01, le=1.0),
        Option(
            is_usual=True, help="The engine's memory fraction; its default if left out.",
            flags=("--utilization", "--gpu-memory-utilization"), doors=SHOWN, label="Memory fraction",
            placeholder="the engine's",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SettingFields(MemoryFractionFields):
    """The engine's memory fraction, and how it samples tokens."""

    sampling: Annotated[
        Sampling,
        Option(
            help="greedy, or filtered: from the likely tokens (top-p, top-k), which vLLM sorts for.",
            metavar="greedy|filtered", shows_default=True,
        ),
    ] = Sampling.GREEDY  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReplicaFields(
    LanguageModelFields, ReplicaGpuFields, DeploymentFields, HostCpuFields, AdapterFields, SettingFields, LinkFields,
):  # fmt: skip
    """One replica of a deployment: its model, GPUs, engine, and how the engine is set."""

    prefill: Annotated[
        Prefill | None,
        Option(help="Prompts in decode steps, or alone; the engine's way by default.", metavar="mixed|separate"),
    ] = None
    token_budget: Annotated[
        int | None, Meta(ge=16, le=10**8), Option(help="Most tokens of a step; the engine's default.")
    ] = None
    max_seqs: Annotated[
        int | None, Meta(ge=1, le=10**8), Option(help="Most sequences at a time; the engine's default.")
    ] = None
    receive_interval: Annotated[
        int | None,
        Meta(ge=1, le=10**4),
        Option(help="Steps between two looks for new requests; the engine's default.", metavar="STEPS"),
    ] = None

    def flags(self) -> "SchedulerFlags":
        """Return these settings as the flags of the scheduler model."""
        from capplan.llm.core.timing.engine_rules import SchedulerFlags

        return SchedulerFlags(
            mixes=None if self.prefill is None else self.prefill is Prefill.MIXED,
            token_budget=self.token_budget,
            most_sequences=self.max_seqs,
            receive_interval=self.receive_interval,
        )

    def words(self, model: str, drafter: "Drafter | None" = None) -> "NamedDeployment":
        """Return the words that name the deployment, with what drafts its tokens."""
        from capplan.llm.core.deployment import NamedDeployment

        return from_fields(
            NamedDeployment, self, model=model, engine=self.engine_for(model).value,
            version=self.engine_version or "", sharding=self.sharding(), weights=self.weights or "", kv=self.kv or "",
            max_sequences=self.max_seqs, batched_tokens=self.token_budget, adapters=self.served_adapters(),
            cpu=self.cpu or "", drafter=drafter,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PrefixFields:
    """What of a prompt need not be computed."""

    prefix_fraction: Annotated[
        float,
        Meta(ge=0, le=0.999),
        Option(
            help="Share of a prompt that the prefix cache holds.", flags=("--prefix-hits",), shows_default=True,
            doors=SHOWN, label="Prefix cache hits",
        ),
    ] = 0.0  # fmt: skip


def _mean_of(what: str, example: str) -> Option:
    return Option(
        is_usual=True, help=f"Mean tokens of {what}, such as 1024 or {example}.", metavar="TOKENS", words=TOKENS,
        shows_default=True, doors=SHOWN_AND_SWEPT, label=f"Tokens of {what}",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MeanLengthFields:
    """The mean tokens of prompts and answers."""

    input_len: Annotated[Tokens, _mean_of("a prompt", "8k")] = 1024
    output_len: Annotated[Tokens, _mean_of("an answer", "1k")] = 256


@dataclass(frozen=True, kw_only=True)
class ConversationFields:
    """Requests that are turns of conversations."""

    turns: Annotated[
        int,
        Meta(ge=1, le=1000),
        Option(help="Requests of a conversation, each behind all before it.", shows_default=True),
    ] = 1
    turn_period_s: Annotated[
        float,
        Meta(ge=0, le=1e6),
        Option(
            help="Time from one turn of a conversation to the next.", flags=("--turn-period",), metavar="TIME",
            words=TIME_LIMIT, shows_default=True,
        ),
    ] = 60.0  # fmt: skip

    def sessions(self) -> "Sessions | None":
        """Return the conversations; None where requests have nothing to do with one another."""
        from capplan.llm.core.simulation.arrivals import Sessions

        return Sessions(turns=self.turns, period_s=self.turn_period_s) if self.turns > 1 else None


@dataclass(frozen=True, kw_only=True)
class DrafterFields:
    """What drafts tokens in each step, which the model verifies together."""

    TOPIC = Topic.SPECULATION

    draft_tokens: Annotated[
        int,
        Meta(ge=0, le=32),
        Option(help="Speculation: tokens drafted in each step; needs an acceptance.", shows_default=True),
    ] = 0
    drafter: Annotated[
        Word,
        Option(
            help="What drafts: head (a layer as EAGLE's or multi-token prediction's), eagle3, ngram (words seen "
            "before), or a model or head by name: qwen3-0.6b.",
            metavar="WHAT", shows_default=True,
        ),
    ] = DrafterKind.HEAD.value  # fmt: skip

    def named_drafter(self, context: Context) -> "Drafter | None":
        """Return what drafts, its model by a name that may be looked up at the door; None where nothing is drafted."""
        if not self.draft_tokens:
            return None
        found = Drafter.named(self.drafter)
        return replace(found, model=context.language_model(found.model)) if found.model else found


@dataclass(frozen=True, kw_only=True)
class SpeculationFields(DrafterFields):
    """What drafts tokens, and how many of them the model accepts."""

    TOPIC = Topic.SPECULATION

    acceptance: Annotated[
        float | None,
        Meta(ge=0, le=1),
        Option(help="Chance that a drafted token is accepted if those before it are."),
    ] = None
    acceptance_rate: Annotated[
        float | None,
        Meta(ge=0, le=1),
        Option(help="Instead: accepted ÷ drafted tokens, which vLLM logs as draft acceptance rate.", words=SHARE),
    ] = None
    acceptance_length: Annotated[
        float | None,
        Meta(ge=1, le=33),
        Option(help="Instead: mean tokens of a step, which engines log as mean acceptance length or accept len."),
    ] = None
    acceptance_by_position: Annotated[
        tuple[_AcceptedShare, ...],
        Meta(max_length=32),
        Option(help="Instead: the share of steps whose first, second, ... draft is accepted; repeatable."),
    ] = ()

    def speculation(self, context: Context) -> "Speculation | None":
        """Return what is drafted and accepted; None for nothing."""
        from capplan.llm.core.serving.asked import Speculation, acceptance_of

        drafts, by_position, drafter = self.draft_tokens, self.acceptance_by_position, self.named_drafter(context)
        stated = {
            "⟨acceptance⟩": self.acceptance, "⟨acceptance-rate⟩": self.acceptance_rate,
            "⟨acceptance-length⟩": self.acceptance_length, "⟨acceptance-by-position⟩": by_position or None,
        }  # fmt: skip
        named = [option for option, value in stated.items() if value is not None]
        if bool(drafts) != bool(named):
            raise UsageError("speculation needs both ⟨draft-tokens⟩ and ⟨acceptance⟩, such as 3 and 0.7.")
        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)} state the same: leave all but one out.")
        if drafter is None:
            return None
        if self.acceptance is not None:
            return Speculation(drafts=drafts, acceptance=self.acceptance, drafter=drafter)
        if by_position and len(by_position) != drafts:
            raise UsageError(
                f"⟨acceptance-by-position⟩ has {len(by_position)} shares; ⟨draft-tokens⟩ {drafts} needs as many."
            )
        accepted = sum(by_position) if by_position else drafts * (self.acceptance_rate or 0.0)
        per_step = self.acceptance_length or 1.0 + accepted
        chance = acceptance_of(drafts, per_step)
        if chance is None:
            raise UsageError(f"{named[0]} {per_step:g}: a step with {drafts} drafts gives 1 to {drafts + 1} tokens.")
        return Speculation(drafts=drafts, acceptance=chance, drafter=drafter)


@dataclass(frozen=True, kw_only=True)
class LengthFields(MeanLengthFields, PrefixFields, SpeculationFields):
    """The tokens of prompts and answers, how they vary, and what need not be computed."""

    spread: Annotated[
        float | None,
        Meta(ge=0, le=1),
        Option(help="Lengths vary evenly by ± this share; 0.11 by default, as most benchmarks draw them."),
    ] = None
    input_cv: Annotated[
        float, Meta(ge=0, le=10), Option(help="Log-normal prompts with this deviation ÷ mean.", shows_default=True)
    ] = 0.0
    output_cv: Annotated[
        float, Meta(ge=0, le=10), Option(help="Log-normal answers with this deviation ÷ mean.", shows_default=True)
    ] = 0.0
    input_p99: Annotated[
        int | None,
        Meta(ge=1, le=10**9),
        Option(help="Tokens that 99% of prompts stay below, instead of ⟨input-cv⟩.", metavar="TOKENS", words=TOKENS),
    ] = None
    burstiness: Annotated[
        float,
        Meta(ge=0.01, le=1000),
        Option(help="Squared variation of gaps: 1 is Poisson, more is burstier.", shows_default=True),
    ] = 1.0

    def load(self, context: Context, *, rate_per_s: float | None, concurrency: float | None) -> "TokenLoad":
        """Return a load of these lengths."""
        from capplan.llm.core.fleet.token_load import TokenLoad
        from capplan.llm.core.serving.service import BENCHMARK_SPREAD

        input_cv = self.input_cv if self.input_p99 is None else self._input_cv(self.input_p99)
        varies = bool(input_cv or self.output_cv)
        if self.spread and varies:
            raise UsageError(
                "⟨spread⟩ contradicts ⟨input-cv⟩, ⟨input-p99⟩ and ⟨output-cv⟩: lengths vary evenly or log-normally."
            )
        return TokenLoad(
            rate_per_s=rate_per_s,
            concurrency=concurrency,
            input_len=self.input_len,
            output_len=self.output_len,
            spread=BENCHMARK_SPREAD if self.spread is None and not varies else self.spread or 0.0,
            input_cv=input_cv,
            output_cv=self.output_cv,
            gap_scv=self.burstiness,
            prefix_fraction=self.prefix_fraction,
            speculation=self.speculation(context),
        )

    def _input_cv(self, most: float) -> float:
        """Return the deviation ÷ mean of log-normal prompts of which 99 % stay below some tokens."""
        from capplan.llm.core.fleet.token_load import log_normal_cv

        if self.input_cv:
            raise UsageError("⟨input-p99⟩ and ⟨input-cv⟩ both state how prompts vary: leave one out.")
        cv = log_normal_cv(most / self.input_len)
        if cv is None:
            raise UsageError(
                f"⟨input-p99⟩ {most:g} does not go with a mean of {self.input_len:g} tokens: 99 % of prompts stay "
                "below 1 to 14.9 times their mean."
            )
        return cv


@dataclass(frozen=True, kw_only=True)
class TaskFields:
    """What a model is served for, where that is not text that is generated from text."""

    TOPIC = Topic.TASKS

    task: Annotated[
        ServingTask,
        Option(
            help="generate, embed (a vector a text) or rerank (a score a document).", metavar="TASK",
            shows_default=True,
        ),
    ] = ServingTask.GENERATE  # fmt: skip
    documents: Annotated[
        int, Meta(ge=1, le=10**7), Option(help="Documents of a request that is reranked.", shows_default=True)
    ] = 1
    images: Annotated[
        int, Meta(ge=0, le=10**7), Option(help="Images of a request, on top of ⟨input-len⟩ tokens.", shows_default=True)
    ] = 0
    image_size: Annotated[
        tuple[int, int], Option(help="Pixels of an image.", metavar="WxH", words=PIXELS, shows_default=True)
    ] = (1024, 1024)
    image_tokens: Annotated[
        int | None,
        Meta(ge=1, le=10**8),
        Option(help="Tokens of an image; by the model's encoder and size by default."),
    ] = None

    def with_task(self, load: "TokenLoad", model: "LanguageModel") -> "TokenLoad":
        """Return a load with what the task changes."""
        from capplan.llm.core.search.images import images_of

        if self.documents > 1 and self.task != ServingTask.RERANK:
            raise UsageError(f"⟨documents⟩ {self.documents} are reranked; add ⟨task⟩ rerank.")
        images = images_of(model, count=self.images, size=self.image_size, tokens=self.image_tokens)
        tokens = load.input_len + (images.count * images.tokens if images else 0.0)
        changed = replace(load, input_len=tokens, images=images, task=self.task, documents=self.documents)
        return changed if self.task == ServingTask.GENERATE else replace(changed, output_len=1.0, output_cv=0.0)


def _limit(flag: str, words: str, *, of: str, example: str, is_usual: bool = True) -> Option:
    return Option(
        help=f"{words}: {example}.", flags=(flag,), metavar="TIME", words=TIME_LIMIT, doors=SHOWN, label=f"Limit, {of}",
        placeholder=example, is_usual=is_usual,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LatencyLimitFields:
    """Limits on what requests see, and of which requests."""

    max_ttft_s: Annotated[
        float | None,
        Meta(le=1e15),
        _limit("--max-ttft", "Limit of the time to first token", of="first token", example="1s"),
    ] = None
    max_tpot_s: Annotated[
        float | None,
        Meta(le=1e15),
        _limit("--max-tpot", "Limit of the time between tokens", of="per token", example="40ms"),
    ] = None
    max_e2e_s: Annotated[
        float | None,
        Meta(le=1e15),
        _limit("--max-e2e", "Limit of a whole answer", of="whole answer", example="10s", is_usual=False),
    ] = None
    percentile: Annotated[
        Statistic,
        Option(
            help="Requests that keep the limits: mean, 50, 90, 95, 99.", metavar="P", words=STATISTIC,
            shows_default=True, doors=SHOWN, label="Limits for percentile",
        ),
    ] = Statistic.MEAN  # fmt: skip

    def limits(self) -> "LatencyLimits":
        """Return the limits."""
        from capplan.llm.core.simulation.load_answer import LatencyLimits

        return LatencyLimits(
            ttft_s=self.max_ttft_s, tpot_s=self.max_tpot_s, e2e_s=self.max_e2e_s, statistic=self.percentile
        )


@dataclass(frozen=True, kw_only=True)
class SearchFields:
    """Which deployments a search tries: GPUs, engines, formats, how a replica shares the model; and how sure it is."""

    certainty_fraction: Annotated[
        float | None,
        Meta(ge=0.01, le=0.999),
        Option(
            help="Probability with which the limits are kept, as the intervals say; 90% by default.",
            flags=("--certainty",), metavar="SHARE", words=SHARE,
        ),
    ] = None  # fmt: skip
    gpus: Annotated[
        tuple[Name, ...],
        Meta(max_length=400),
        Option(
            is_usual=True, help="Only this GPU; repeatable. All rented data-centre GPUs by default.", flags=("--gpu",),
            metavar="ID", topic=Topic.GPUS, completes="gpus", doors=SHOWN, label="GPUs",
            placeholder="usual; or l40s,a100-sxm4-80gb",
        ),
    ] = ()  # fmt: skip
    engines: Annotated[
        tuple[Word, ...],
        Meta(max_length=16),
        Option(
            is_usual=True,
            help="vllm, sglang, trtllm (the default), llama.cpp or all; repeatable.",
            flags=("--engine",),
            doors=SHOWN,
            label="Engine",
        ),
    ] = ()
    weights: Annotated[
        tuple[Word, ...],
        Meta(max_length=16),
        Option(
            is_usual=True,
            help="bf16, fp8, ...; repeatable; the checkpoint's by default.", metavar="FORMAT", topic=Topic.MODEL,
            doors=SHOWN, label="Weights",
        ),
    ] = ()  # fmt: skip
    kv: Annotated[
        Word | None,
        Option(help="Number format of the KV cache.", metavar="FORMAT", words=KV_CACHE, doors=SHOWN, label="KV cache"),
    ] = None
    tp: Annotated[_Degrees, _degree("tp", "Tensor parallelism; repeatable.", shows_default=False)] = ()
    pp: Annotated[_Degrees, _degree("pp", "Pipeline stages; repeatable.", shows_default=False)] = ()
    ep: Annotated[_Degrees, _degree("ep", "Expert parallelism; repeatable.", shows_default=False)] = ()
    dp: Annotated[_Degrees, _degree("dp", "Ranks of attention data parallelism; repeatable.", shows_default=False)] = ()
    max_seqs: Annotated[_Degrees, Option(help="Most sequences at a time in a replica; repeatable.")] = ()
    redundancy: Annotated[
        int,
        Meta(ge=0, le=10**7),
        Option(help="Replicas beyond need (N+k).", shows_default=True, doors=SHOWN, label="Spare replicas"),
    ] = 0

    def searched_engines(self, offload: "HostOffload | None" = None) -> tuple[str, ...]:
        """Return the engines to try; by default llama.cpp alone where all weights are of GGUF formats."""
        from capplan.llm.core.search.search import DEFAULT_ENGINES

        named = names_of(self.engines)
        found = ENGINES if named == ("all",) else tuple(find_engine(name).value for name in named)
        if offload is None:
            formats = [find_weight_format(name) for name in names_of(self.weights)]
            is_gguf = bool(formats) and all(weights.gguf for weights in formats)
            return found or ((Engine.LLAMACPP.value,) if is_gguf else DEFAULT_ENGINES)
        if named != ("all",) and (others := [name for name in found if name != Engine.LLAMACPP]):
            raise UsageError(
                f"⟨engine⟩ {others[0]} keeps all layers on the GPU; ⟨gpu-layers⟩ and ⟨n-cpu-moe⟩ are for llama.cpp."
            )
        return (Engine.LLAMACPP.value,)

    def searched_weights(self, model: "LanguageModel") -> tuple[str, ...]:
        """Return the formats of weights to try, an empty word for the checkpoint's own."""
        named = names_of(self.weights)
        for name in named:
            model.stored_as(name)
        return named or ("",)

    def choice(self) -> "ShardingChoice":
        """Return the degrees of parallelism to try; every usual one where none is stated."""
        from capplan.llm.core.sharding import ShardingChoice

        return ShardingChoice(tensor=self.tp, pipeline=self.pp, expert=self.ep, data=self.dp)


MOST_YEARS = 10
"""Years that rent and purchase are compared over at most."""


@dataclass(frozen=True, kw_only=True)
class MoneyFields:
    """How the money of a plan is counted."""

    growth_fraction: Annotated[
        float,
        Option(
            help="Growth of the load per year, such as 50% or 0.5.", flags=("--growth",), metavar="SHARE",
            words=CHANGE, shows_default=True,
        ),
    ] = 0.0  # fmt: skip
    years: Annotated[int, Option(help="Years that rent and purchase are compared over.", shows_default=True)] = 3
    hours_of_use: Annotated[
        str | None,
        Option(
            help="Hours of a day with load, such as 8-18 or 22-6: rents by the hour are paid then; all by default.",
            metavar="H-H",
        ),
    ] = None  # fmt: skip
    days_per_week: Annotated[int, Meta(ge=1, le=7), Option(help="Days of a week with load.", shows_default=True)] = 7
    api_usd_per_million_tokens: Annotated[
        tuple[float, ...] | None,
        Option(
            help="USD that an API asks per million input and output tokens: 0.6,2.4; with that of cached input: "
            "0.6,0.06,2.4.",
            flags=("--api-price",), metavar="IN[,CACHED],OUT", words=TOKEN_PRICES,
        ),
    ] = None  # fmt: skip

    def week(self) -> tuple[float, ...]:
        """Return 1 for each hour of a week in which there is load, else 0."""
        from capplan.core.serving.load import HOURS_PER_DAY, days_in_use
        from capplan.specs.load import hours_of_use

        used = frozenset(range(HOURS_PER_DAY)) if self.hours_of_use is None else hours_of_use(self.hours_of_use)
        if used is None:
            raise UsageError(f"⟨hours-of-use⟩ {self.hours_of_use}: write whole hours of a day such as 8-18 or 22-6.")
        return days_in_use(used, self.days_per_week)

    def api(self) -> "ApiPrice | None":
        """Return the price of an API to compare with; None for none."""
        from capplan.core.gpus.by_use import ApiPrice

        asked = self.api_usd_per_million_tokens
        if asked is None:
            return None
        return ApiPrice(input=asked[0], output=asked[-1], cached=asked[1] if len(asked) > 2 else None)

    def check_money(self) -> None:
        """Refuse, before anything is searched, what cannot be counted."""
        self.week()
        if not -0.9 <= self.growth_fraction <= 10:
            raise UsageError(f"⟨growth⟩ {self.growth_fraction:.0%}: write growth per year from -90% to 1000%.")
        if not 1 <= self.years <= MOST_YEARS:
            raise UsageError(f"⟨years⟩ {self.years}: count 1 to {MOST_YEARS} years.")


@dataclass(frozen=True, kw_only=True)
class SpendFields:
    """The most that may be spent on rent."""

    max_usd_per_hour: Annotated[
        float | None,
        Meta(gt=0, le=1e15),
        Option(help="Most rent of all machines an hour.", flags=("--max-price",), metavar="USD", topic=Topic.PRICES),
    ] = None  # fmt: skip
    budget_usd_per_month: Annotated[
        float | None,
        Meta(gt=0, le=1e15),
        Option(
            help="Most rent of all machines a month, such as 10k.", flags=("--budget",), metavar="USD", words=AMOUNT,
            topic=Topic.PRICES,
        ),
    ] = None  # fmt: skip

    def most_usd_per_hour(self) -> float | None:
        """Return the most rent an hour, of a month of 730 hours; None for any. [USD/h]"""
        from capplan.core.formulas import HOURS_PER_YEAR

        monthly = None if self.budget_usd_per_month is None else self.budget_usd_per_month * 12 / HOURS_PER_YEAR
        return min((most for most in (self.max_usd_per_hour, monthly) if most is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class LoadFileFields:
    """The load file of a question whose other fields it may state."""

    load_file: Annotated[
        Path | None,
        Option(
            help="The load: a file of `capplan load`, or keys that are options of `capplan llm plan`; options other "
            "than their defaults win over it.",
            flags=("--load",), metavar="LOAD.yaml", topic=Topic.LIMITS, doors=HERE,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FilesHereFields:
    """What this machine brings: own specs, and own constants of times."""

    specs: OwnSpecs = ()
    calibration: Annotated[Path | None, TIME_CALIBRATION] = None

    def deployments(self, context: Context, power_law: "PowerLaw | None" = None) -> "Deployments":
        """Return what finds deployments among the GPUs that a door knows, under the cap of a law of power."""
        from capplan.app.deployments import Deployments

        return Deployments(gpus=context.gpu_database(self.specs), power_law=power_law)


def names_of(several: Sequence[str]) -> tuple[str, ...]:
    """Return names that may be parted by commas, as other verbs take GPUs."""
    return tuple(name.strip() for text in several for name in text.split(",") if name.strip())
