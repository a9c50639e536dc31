"""What serving engines run on, and which number formats they have kernels for, by GPU and version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capplan.core.engine_names import Engine
from capplan.core.gpus.sale import sale_notes
from capplan.core.gpus.spec import GpuSpec
from capplan.core.weights import WEIGHT_FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions of an engine that run on a family of GPUs: from `since` on, before `before`; None for no bound.

    `unofficial` families have no build of the engine's makers, but community builds.
    """

    since: tuple[int, ...] | None = None
    before: tuple[int, ...] | None = None
    unofficial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatKernels:
    """Kernels of an engine for one number format: the families of GPUs that they run on, from version `since` on.

    `widened` ones read weights in the format and compute in 16 bits. Those for a mixture's experts came with
    `experts_since`, None for the same version, or are lacking (`no_experts`).
    """

    on: frozenset[str]
    since: tuple[int, ...] | None = None
    experts_since: tuple[int, ...] | None = None
    no_experts: bool = False
    widened: bool = False

    def first(self, *, experts: bool) -> tuple[int, ...] | None:
        """Return the first version with the kernels, None where all have them."""
        return (self.experts_since if experts else None) or self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts:
    """What of an engine's memory changed with its releases, from version `since` on.

    Attributes:
        since: First version that the facts hold for.
        fraction: The memory fraction by default; None where it depends on the GPU.
        graphs_inside: CUDA graphs are taken from the budget before the cache is.
        size_by_length: The size of the cache is stated as the longest length times how many such sequences fit.
        whole_prompts: The profiling run has a prompt of the longest length, where that is at most 32,768 tokens.
        keeps_windows: Layers with a sliding window keep no more than it; all tokens else.
        keeps_chunks: Layers that attend within chunks of a prompt keep no more than one; all tokens else.
        prompt_graphs: CUDA graphs are captured for prompts, too.
        larger_steps: Cards of 20 to 35 GiB take steps twice as large (SGLang).
        latent: Latent attention caches the latent rows; keys and values of each head else.
        expert_padding: The multiples to which experts' widths and the hidden width are padded in padded formats, by
            family of GPUs; `other` for those that are not named.
    """

    since: tuple[int, ...] = (0,)
    fraction: float | None = None
    graphs_inside: bool = False
    size_by_length: bool = False
    whole_prompts: bool = False
    keeps_windows: bool = True
    keeps_chunks: bool = True
    prompt_graphs: bool = False
    larger_steps: bool = False
    latent: bool = True
    expert_padding: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRuns:
    """The families of GPUs that an engine runs on, its kernels for formats of weights and of the KV cache, its memory.

    Formats and kinds of `attention` that are not listed are not restricted. `memory` stands from old to new, `newest`
    is the last version whose facts were looked up.
    """

    families: Mapping[str, Versions]
    formats: Mapping[str, tuple[FormatKernels, ...]]
    caches: Mapping[str, tuple[FormatKernels, ...]]
    memory: tuple[ReleaseFacts, ...]
    attention: Mapping[str, tuple[FormatKernels, ...]] = field(default_factory=dict)
    newest: tuple[int, ...] | None = None


SHOWN_FORMATS = ("bf16", "fp8", "int8", "awq", "gptq", "nvfp4", "mxfp4", "q4_k_m")
"""Formats of weights that checkpoints are mostly in."""

_ALTERNATIVES = ("bf16", "fp8", "awq", "gptq", "int8", "nvfp4", "q4_k_m")
"""Formats of weights that a refusal proposes, as far as an engine has kernels for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSupport:
    """Whether an engine's newest release reads weights of a format on a GPU.

    `weights` is empty where the engine does not run on the GPU at all. `since` is the first version with the kernels,
    None where all have them or none is known. `reason` says why not, or what is to be known, empty for nothing.
    """

    engine: Engine
    weights: str
    runs: bool
    widened: bool = False
    since: tuple[int, ...] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSupport:
    """What engines run on: `hardware` names the families that are known, by compute capability or architecture."""

    hardware: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[Engine, EngineRuns] = field(default_factory=dict)

    def problem(
        self,
        gpu: GpuSpec,
        engine: Engine,
        *,
        version: tuple[int, ...] | None = None,
        weights: str,
        kv: str = "",
        experts: bool = False,
        attention: str = "",
    ) -> str | None:
        """Return why an engine does not run formats on a GPU, and what would; None where nothing is known against it.

        Args:
            version: Its version, the newest if None.
            kv: The format of the KV cache; one of 16 bits if empty.
            experts: The weights of a mixture's experts are in the format, too.
            attention: The kind of attention that needs kernels of its own (`Architecture.special_attention`), if any.
        """
        family, runs = family_of(gpu), self.engines.get(engine)
        if runs is None or family not in self.hardware:
            return None
        return (
            self._does_not_run(gpu, engine, version)
            or self._lacks_kernels(
                gpu, engine, version, what=f"{attention} attention", rows=runs.attention.get(attention)
            )
            or self._no_kernels(gpu, engine, version, weights, experts=experts)
            or self._lacks_kernels(gpu, engine, version, what=f"a KV cache in {kv} (⟨kv⟩)", rows=runs.caches.get(kv))
        )

    def widens(self, gpu: GpuSpec, engine: Engine, weights: str) -> bool:
        """Return True if an engine reads weights of a format on a GPU, but computes in 16 bits."""
        kernels = self._kernels(gpu, engine, weights)
        return bool(kernels and kernels.widened)

    def table(self, gpu: GpuSpec, weights: Mapping[str, bool], attention: str = "") -> tuple[FormatSupport, ...]:
        """Return a row for each engine and format on a GPU, one row for an engine that does not run there.

        Args:
            weights: The formats, with True for those that a mixture's experts are in, too.
            attention: The kind of attention that needs kernels of its own, if any.
        """
        rows: list[FormatSupport] = []
        for engine in Engine:
            problem = self.problem(gpu, engine, weights="", attention=attention)
            if problem is not None:
                rows.append(FormatSupport(engine=engine, weights="", runs=False, reason=problem))
                continue
            for name, experts in weights.items():
                problem = self.problem(gpu, engine, weights=name, experts=experts)
                kernels = self._kernels(gpu, engine, name) if problem is None else None
                rows.append(
                    FormatSupport(
                        engine=engine,
                        weights=name,
                        runs=problem is None,
                        widened=kernels is not None and kernels.widened,
                        since=None if kernels is None else kernels.first(experts=experts),
                        reason=problem or "; ".join(self.notes(gpu, engine, name)),
                    )
                )
        return tuple(rows)

    def facts(self, engine: Engine, version: tuple[int, ...] | None) -> ReleaseFacts:
        """Return the facts of an engine's version, the newest if none is named."""
        runs = self.engines.get(engine)
        known = runs.memory if runs else ()
        fitting = [facts for facts in known if not _is_before(version, facts.since)]
        return fitting[-1] if fitting else ReleaseFacts()

    def is_newer(self, engine: Engine, version: tuple[int, ...] | None) -> bool:
        """Return True for a version after the last whose facts were looked up."""
        runs = self.engines.get(engine)
        newest = runs.newest if runs else None
        return newest is not None and version is not None and version[: len(newest)] > newest

    def is_official(self, gpu: GpuSpec, engine: Engine) -> bool:
        """Return False for a GPU that only community builds of an engine run on."""
        runs = self.engines.get(engine)
        versions = runs.families.get(family_of(gpu)) if runs else None
        return versions is None or not versions.unofficial

    def notes(
        self, gpu: GpuSpec, engine: Engine, weights: str, *, version: tuple[int, ...] | None = None
    ) -> tuple[str, ...]:
        """Return what is to be known of a GPU, and of an engine and a format that do run on it."""
        found = [*sale_notes([gpu])]
        if version is not None and self.is_newer(engine, version):
            last = _dotted(self.engines[engine].newest or ())
            found.append(f"{engine.value} {_dotted(version)} is newer than what is known, and answered as {last}")
        if not self.is_official(gpu, engine):
            found.append(f"{engine.value} has no official build for {self._shown(gpu)}: community builds run there")
        if self.widens(gpu, engine, weights):
            found.append(
                f"{engine.value} computes {weights} in 16 bits on {self._shown(gpu)}: its kernels there are for "
                "weights alone, which saves memory and traffic, not arithmetic"
            )
        return tuple(found)

    def _does_not_run(self, gpu: GpuSpec, engine: Engine, version: tuple[int, ...] | None) -> str | None:
        family, shown = family_of(gpu), self._shown(gpu)
        versions = self.engines[engine].families.get(family)
        if versions is None:
            return f"{engine.value} does not run on {shown}; {self._others(family)}"
        if versions.since and version is not None and _is_before(version, versions.since):
            return (
                f"{engine.value} runs on {shown} from version {_dotted(versions.since)} on, not in {_dotted(version)}"
            )
        if versions.before and (version is None or version >= versions.before):
            last = _dotted(versions.before)
            return f"{engine.value} runs on {shown} before version {last} alone; {self._others(family)}"
        return None

    def _lacks_kernels(
        self,
        gpu: GpuSpec,
        engine: Engine,
        version: tuple[int, ...] | None,
        *,
        what: str,
        rows: Sequence[FormatKernels] | None,
    ) -> str | None:
        """Return why an engine has no kernels of something on a GPU; None where it has, or no rows restrict it."""
        if rows is None:
            return None
        found = next((row for row in rows if family_of(gpu) in row.on), None)
        if found is None:
            on = {name: words for name, words in self.hardware.items() if any(name in row.on for row in rows)}
            numbers = ", ".join(f"{name} ({words})" for name, words in on.items() if name[0].isdigit())
            others = [words for name, words in on.items() if not name[0].isdigit()]
            names = ", ".join([f"compute capability {numbers}"] * bool(numbers) + others)
            where = f" for {self._shown(gpu)}, only for {names}" if on else ""
            return f"{engine.value} has no kernels of {what}{where}"
        if found.since is not None and _is_before(version, found.since):
            first = f"from version {_dotted(found.since)} on, not in {_dotted(version or ())}"
            return f"{engine.value} has kernels of {what} for {self._shown(gpu)} {first}"
        return None

    def _kernels(self, gpu: GpuSpec, engine: Engine, weights: str) -> FormatKernels | None:
        runs = self.engines.get(engine)
        rows = runs.formats.get(weights, ()) if runs else ()
        return next((row for row in rows if family_of(gpu) in row.on), None)

    def _lacks(
        self, gpu: GpuSpec, engine: Engine, version: tuple[int, ...] | None, weights: str, *, experts: bool
    ) -> bool:
        """Return True if an engine that runs on a GPU has no kernels for a format there."""
        runs, stored = self.engines[engine], WEIGHT_FORMATS.get(weights)
        if weights not in runs.formats:
            return engine is Engine.TRTLLM and stored is not None and stored.gguf is not None
        kernels = self._kernels(gpu, engine, weights)
        if kernels is None or (experts and kernels.no_experts):
            return True
        first = kernels.first(experts=experts)
        return first is not None and _is_before(version, first)

    def _no_kernels(
        self, gpu: GpuSpec, engine: Engine, version: tuple[int, ...] | None, weights: str, *, experts: bool
    ) -> str | None:
        if not self._lacks(gpu, engine, version, weights, experts=experts):
            return None
        shown, kernels = self._shown(gpu), self._kernels(gpu, engine, weights)
        if weights not in self.engines[engine].formats:
            return f"{engine.value} reads no GGUF format such as {weights}; use llama.cpp, vllm or sglang"
        what = f"{weights} kernels for experts" if kernels and experts else f"{weights} kernels"
        if kernels and not (experts and kernels.no_experts) and version is not None:
            first = kernels.first(experts=experts) or ()
            return f"{engine.value} has {what} for {shown} from version {_dotted(first)} on, not in {_dotted(version)}"
        here = ", ".join(
            name
            for name in _ALTERNATIVES
            if name != weights and not self._lacks(gpu, engine, version, name, experts=experts)
        )
        elsewhere = " or ".join(
            other.value
            for other, runs in self.engines.items()
            if weights in runs.formats
            and self._does_not_run(gpu, other, None) is None
            and not self._lacks(gpu, other, None, weights, experts=experts)
        )
        also = f", or {elsewhere} for {weights}" if elsewhere else ""
        return f"{engine.value} has no {what} for {shown}; use {here} there{also}"

    def _shown(self, gpu: GpuSpec) -> str:
        family = family_of(gpu)
        capability = f", compute capability {family}" if gpu.compute_capability and not gpu.is_cpu else ""
        return f"{gpu.id} ({self.hardware.get(family, family)}{capability})"

    def _others(self, family: str) -> str:
        newest = [
            engine.value
            for engine, runs in self.engines.items()
            if (versions := runs.families.get(family)) and not versions.before
        ]
        *first, last = newest or ["no engine that capplan knows"]
        return f"use {', '.join(first)} or {last}" if first else f"use {last}" if newest else f"{last} does"


def family_of(gpu: GpuSpec) -> str:
    """Return the family of a GPU by which engines choose kernels: its compute capability, or its architecture."""
    if gpu.is_cpu:
        return "CPU"
    return gpu.architecture if gpu.compute_capability is None else ".".join(map(str, gpu.compute_capability))


def _is_before(version: tuple[int, ...] | None, first: tuple[int, ...]) -> bool:
    """Return True for a version before another; one that is named in fewer numbers stands for its last patch."""
    return version is not None and version < first[: len(version)]


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
