"""The options that describe how one replica serves a language model, and the types they become."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.commands.llm.options import (
    DataOption,
    EngineOption,
    ExpertOption,
    PipelineOption,
    TensorOption,
    VersionOption,
)

if TYPE_CHECKING:
    from capplan.llm.core.sharding import Sharding

OneGpu = Annotated[str, typer.Option("--gpu", metavar="ID", help="Exact id or alias of a GPU.", show_default=False)]
DownloadOption = Annotated[
    bool, typer.Option("--download", help="Fetch the configuration and headers of hf:org/name over the network.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOptions:
    """Number formats, GPUs and engine of one replica."""

    weights: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default."),
    ] = None
    kv: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Number format of the KV cache: bf16, fp8, q8_0, ...")
    ] = None
    tp: TensorOption = 1
    pp: PipelineOption = 1
    ep: ExpertOption = 1
    dp: DataOption = 1
    engine: EngineOption = "vllm"
    engine_version: VersionOption = None

    def sharding(self) -> "Sharding":
        """Return how the GPUs of a replica share the model."""
        from capplan.llm.core.sharding import Sharding

        return Sharding(tensor=self.tp, pipeline=self.pp, expert=self.ep, data=self.dp)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimitOptions:
    """How much memory the engine may take, and for what."""

    max_len: Annotated[
        int | None,
        typer.Option("--max-len", metavar="TOKENS", help="Longest sequence served; the model's own limit by default."),
    ] = None
    utilization: Annotated[
        float | None,
        typer.Option(
            "--utilization", "--gpu-memory-utilization", help="The engine's memory fraction; its default if left out."
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of one step; the engine's default if left out.")
    ] = None
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="Sequences that run at once; the engine's default if left out.")
    ] = None
    kv_pool: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Take this cache per GPU, such as an engine's log states.")
    ] = None

    def pool_bytes(self) -> float | None:
        """Return the stated cache of one GPU; None where it is to be computed. [bytes]

        Raises:
            UsageError: the text is not a size.
        """
        from capplan.units import BYTES, parse_quantity

        return None if self.kv_pool is None else parse_quantity(self.kv_pool, BYTES, what="--kv-pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOptions:
    """Measured runs that an estimate is adjusted to."""

    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A measured run of this deployment: vLLM or SGLang benchmark JSON, genai-perf CSV, or a serving CSV; "
            "repeatable.",
            show_default=False,
        ),
    ] = None
    link: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Both directions of the link between GPUs, such as '900 GB/s'."),
    ] = None
