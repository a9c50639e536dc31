"""`capplan llm memory`: weights, activations and KV cache of a served language model, and what fits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.commands.llm.deployment import DeploymentOptions, DownloadOption, MemoryLimitOptions, OneGpu
from capplan.cli.commands.llm.options import LlmModel
from capplan.cli.groups import with_groups
from capplan.cli.options import AnswerOptions, SpecFolders
from capplan.cli.output import Format, laid_out, to_json

if TYPE_CHECKING:
    from capplan.llm.core.memory_answer import MemoryAnswer


@with_groups
def memory(
    *,
    model: LlmModel,
    gpu: OneGpu,
    deployment: DeploymentOptions,
    limits: MemoryLimitOptions,
    download: DownloadOption = False,
    specs: SpecFolders = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Memory rules of engines other than the shipped ones.")
    ] = None,
    answer: AnswerOptions,
) -> None:
    """Divide a GPU's memory among weights, activations and the KV cache of a served language model.

    Examples:  capplan llm memory deepseek-v3 --weights fp8 --gpu h200-sxm-141gb --tp 8 --max-len 32768

    capplan llm memory qwen3-32b --gpu rtx-4090 --engine llama.cpp --weights q4_k_m --max-len 16384
    """
    from capplan.llm.answer.memory import MemoryWords, answer_memory_words

    chosen = answer.format()
    found = answer_memory_words(
        MemoryWords(
            model=model,
            gpu=gpu,
            sharding=deployment.sharding(),
            weights=deployment.weights,
            kv=deployment.kv,
            engine=deployment.engine,
            version=deployment.engine_version,
            sequence_tokens=limits.max_len,
            fraction=limits.utilization,
            batched_tokens=limits.max_num_batched_tokens,
            max_sequences=limits.max_num_seqs,
            pool_bytes=limits.pool_bytes(),
            download=download,
            specs=specs or (),
            calibration=calibration,
        )
    )
    answer.emit(_render(found, chosen, answer.output))
    if not found.fits:
        raise typer.Exit(1)


def _render(found: "MemoryAnswer", chosen: Format, output: Path | None) -> str:
    if chosen is Format.JSON:
        from capplan.report.documents.llm.memory import llm_memory_document

        return to_json(llm_memory_document(found))
    from capplan.report.text.llm.memory import llm_memory_sections

    return laid_out(llm_memory_sections(found), chosen, output=output)
