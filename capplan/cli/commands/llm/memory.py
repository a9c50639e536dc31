"""`capplan llm memory`: weights, activations and KV cache of a served language model, and what fits."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.options import SpecFolders
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json

LlmModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name of `capplan llm models`, hf:config.json, hf:FOLDER, hf:org/name of the local cache, FILE.gguf.",
        show_default=False,
    ),
]


def memory(
    model: LlmModel,
    gpu: Annotated[str, typer.Option("--gpu", metavar="ID", help="Exact id or alias of a GPU.", show_default=False)],
    weights: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default."),
    ] = None,
    kv: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Number format of the KV cache: bf16, fp8, q8_0, ...")
    ] = None,
    tp: Annotated[int, typer.Option("--tp", min=1, help="GPUs that share every matrix.")] = 1,
    pp: Annotated[int, typer.Option("--pp", min=1, help="Pipeline stages.")] = 1,
    ep: Annotated[int, typer.Option("--ep", min=1, help="GPUs among which whole experts are distributed.")] = 1,
    dp: Annotated[int, typer.Option("--dp", min=1, help="Ranks of attention data parallelism.")] = 1,
    max_len: Annotated[
        int | None,
        typer.Option("--max-len", metavar="TOKENS", help="Longest sequence served; the model's own limit by default."),
    ] = None,
    engine: Annotated[str, typer.Option(help="vllm, sglang, trtllm or llama.cpp.")] = "vllm",
    engine_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Version of the engine, such as 0.19; the newest by default.")
    ] = None,
    utilization: Annotated[
        float | None,
        typer.Option(
            "--utilization", "--gpu-memory-utilization", help="The engine's memory fraction; its default if left out."
        ),
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of one step; the engine's default if left out.")
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="Sequences that run at once; the engine's default if left out.")
    ] = None,
    kv_pool: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Take this cache per GPU, such as an engine's log states.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch the configuration and headers of hf:org/name over the network.")
    ] = False,
    specs: SpecFolders = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Memory rules of engines other than the shipped ones.")
    ] = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Divide a GPU's memory among weights, activations and the KV cache of a served language model.

    Examples:  capplan llm memory deepseek-v3 --weights fp8 --gpu h200-sxm-141gb --tp 8 --max-len 32768

    capplan llm memory qwen3-32b --gpu rtx-4090 --engine llama.cpp --weights q4_k_m --max-len 16384
    """
    from capplan.app.llm.memory import MemoryWords, answer_memory_words
    from capplan.core.llm.sharding import Sharding
    from capplan.units import BYTES, parse_quantity

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    answer = answer_memory_words(
        MemoryWords(
            model=model,
            gpu=gpu,
            sharding=Sharding(tensor=tp, pipeline=pp, expert=ep, data=dp),
            weights=weights,
            kv=kv,
            engine=engine,
            version=engine_version,
            sequence_tokens=max_len,
            fraction=utilization,
            batched_tokens=max_num_batched_tokens,
            max_sequences=max_num_seqs,
            pool_bytes=None if kv_pool is None else parse_quantity(kv_pool, BYTES, what="--kv-pool"),
            download=download,
            specs=specs or (),
            calibration=calibration,
        )
    )
    if spelling is Format.JSON:
        from capplan.report.documents.llm.memory import llm_memory_document

        emit(to_json(llm_memory_document(answer)), output=output)
    else:
        from capplan.report.text.llm import memory as text

        render = {
            Format.TABLE: text.render_llm_memory_text,
            Format.MD: text.render_llm_memory_markdown,
            Format.CSV: text.render_llm_memory_csv,
        }[spelling]
        emit(render(answer), output=output)
    if not answer.fits:
        raise typer.Exit(1)
