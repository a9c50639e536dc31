"""`capplan memory`: the peak of a model's GPU memory by part, where it stands, and the largest batch that fits."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.models import ModelWords, obtain_trace
from capplan.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    emit,
    resolve_format,
    to_json,
    write_atomically,
)
from capplan.core.workload import Configuration, Framework, Layout, Optimizer, Precision, Training, Workload
from capplan.errors import CapplanError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.memory.advice import Alternative
    from capplan.core.memory.model import MemoryModel
    from capplan.core.memory.sharding import Sharding
    from capplan.core.memory.summary import MemoryAnswer
    from capplan.core.trace.types import Trace

_SHARDINGS = ("replicas", "ddp", "zero1", "zero2", "zero3", "fsdp")
_SMALLER_INPUTS = (0.75, 0.5)


def memory(
    model: options.Model,
    arg: options.ModelArguments = None,
    input_: options.Inputs = None,
    input_size: options.InputSize = None,
    seq_len: options.SequenceLength = None,
    inputs_from: options.InputsFrom = None,
    prepare: options.Prepare = None,
    batch: Annotated[int, typer.Option("--batch", "-b", help="Batch size on each GPU.")] = 1,
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="ID", help="Exact id or alias of a GPU; repeatable.", show_default=False),
    ] = None,
    specs: options.SpecFolders = None,
    precision: options.PrecisionOption = None,
    framework: options.FrameworkOption = Framework.EAGER,
    layout: options.LayoutOption = Layout.NCHW,
    torch_version: options.TorchVersion = options.DEFAULT_TORCH,
    train: options.Train = False,
    optimizer: options.OptimizerOption = Optimizer.ADAMW,
    checkpointing: options.Checkpointing = False,
    accumulate: options.Accumulate = 1,
    utilization: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of usable memory that may be filled.")
    ] = 1.0,
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs that share the work.")] = 1,
    sharding: Annotated[
        list[str] | None,
        typer.Option(help=f"How they share it: {', '.join(_SHARDINGS)}; repeatable; all that apply by default."),
    ] = None,
    expandable_segments: Annotated[
        bool, typer.Option("--expandable-segments", help="As with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.")
    ] = False,
    advice: Annotated[
        bool, typer.Option("--advice", help="Work out what other precisions, layouts, optimizers, ... would save.")
    ] = False,
    rule_of_thumb: Annotated[
        bool, typer.Option("--rule-of-thumb", help="Set the classic estimate beside, with what it misses.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw live bytes over the operators.", show_default=False)
    ] = None,
    strict: options.Strict = False,
    format_: FormatOption = None,
    json_: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Say how much GPU memory a model needs, by part, and the largest batch that fits.

    Examples:

      capplan memory resnet50 --batch 32 --gpu l4

      capplan memory timm:vit_base_patch16_224 --batch 64 --train --precision amp-bf16 --gpu rtx-4090 --advice

      capplan memory hf:gpt2 --seq-len 1024 --batch 8 --train --gpus 8 --format json
    """
    from capplan.core.memory.model import MemoryModel
    from capplan.core.memory.summary import answer_memory
    from capplan.specs.memory_calibration import load_memory_calibration

    spelling = resolve_format(format_, json_flag=json_, output=output)
    if batch < 1:
        raise UsageError(f"--batch must be at least 1, not {batch}.")
    training = options.make_training(
        train=train, optimizer=optimizer, checkpointing=checkpointing, accumulate=accumulate
    )
    workload = options.make_workload(
        precision=precision or Precision.FP32,
        framework=framework,
        layout=layout,
        torch_version=torch_version,
        training=training,
    )
    words = ModelWords(
        words=model,
        arguments=arg or (),
        inputs=input_ or (),
        input_size=input_size,
        sequence_length=seq_len,
        inputs_from=inputs_from,
        prepare=prepare or (),
    )
    found = _find_gpus(gpu, specs)
    shared = _shardings(sharding, gpus=gpus, training=training)
    trace = _trace(words, workload, batch=batch)
    _check_strict(trace, workload, model, strict=strict)
    advised, others = _for_advice(words, trace, workload) if advice else (trace, ())
    asked = MemoryModel(
        trace=advised,
        workload=workload,
        calibration=load_memory_calibration(),
        expandable_segments=expandable_segments,
    )
    answer = answer_memory(
        asked,
        batch=batch,
        gpus=found,
        utilization_fraction=utilization,
        others=others,
        rank_count=gpus,
        shardings=shared,
    )
    if plot is not None:
        write_atomically(plot, _draw(asked, answer).encode())
    emit(_spell(answer, spelling, rule_of_thumb=rule_of_thumb), output=output)
    if answer.gpus and all(each.status.value == "does not fit" for each in answer.gpus):
        raise typer.Exit(1)


def _find_gpus(names: Sequence[str] | None, specs: Sequence[Path] | None) -> "list[GpuSpec]":
    if not names:
        return []
    from capplan.specs import load_gpus

    known = load_gpus(overlays=specs or ())
    return list({found.id: found for found in map(known.find, names)}.values())


def _shardings(names: Sequence[str] | None, *, gpus: int, training: Training | None) -> "list[Sharding]":
    from capplan.core.memory.sharding import Sharding

    for name in names or ():
        if name not in _SHARDINGS:
            raise UnknownNameError("sharding", name, _SHARDINGS, hint=f"Known: {', '.join(_SHARDINGS)}.")
    if names:
        return [Sharding(name) for name in names]
    if gpus == 1:
        return []
    return [Sharding(name) for name in (_SHARDINGS[1:] if training else ("replicas", "fsdp"))]


def _trace(words: ModelWords, workload: Workload, *, batch: int) -> "Trace":
    """Trace the model, at the very batch where it does not grow evenly with it."""
    trace = obtain_trace(words, [workload.configuration])
    exact = trace.recording(workload.configuration).exact_batch
    if exact is None or exact == batch or words.is_trace_file:
        return trace
    return obtain_trace(words, [workload.configuration], exact_batch=batch)


def _check_strict(trace: "Trace", workload: Workload, model: str, *, strict: bool) -> None:
    from capplan.core.ops.flops import uncounted

    recording = trace.recording(workload.configuration)
    unknown = [*uncounted(recording), *(guess.what for guess in recording.guesses)]
    if strict and unknown:
        raise UsageError(f"{model}: --strict, and not known for certain are {', '.join(unknown)}.")


def _for_advice(words: ModelWords, trace: "Trace", workload: Workload) -> "tuple[Trace, tuple[Alternative, ...]]":
    """Add the recordings that advice needs to a trace; those that cannot be made are left out."""
    from capplan.core.memory.advice import Alternative, configurations_for_advice

    if words.is_trace_file:
        return trace, ()
    wanted = [*configurations_for_advice(workload)[1:]]
    if workload.training is None:
        wanted.append(replace(workload.configuration, training=Training(optimizer=Optimizer.SGD)))
    more = [other for each in wanted if (other := _try_trace(words, each, trace, workload)) is not None]
    recordings = (*trace.recordings, *(recording for other in more for recording in other.recordings))
    smaller = []
    for size in _smaller_sizes(trace):
        other = _try_trace(replace(words, input_size=size), workload.configuration, trace, workload)
        if other is not None:
            smaller.append(Alternative(change=f"input {size}", trace=other, workload=workload))
    return replace(trace, recordings=recordings), tuple(smaller)


def _try_trace(words: ModelWords, configuration: Configuration, trace: "Trace", workload: Workload) -> "Trace | None":
    exact = trace.recording(workload.configuration).exact_batch
    try:
        return obtain_trace(words, [configuration], exact_batch=exact)
    except CapplanError:
        return None


def _smaller_sizes(trace: "Trace") -> list[str]:
    """Image sizes of three quarters and half, in whole steps of 32."""
    first = trace.inputs[0] if trace.inputs else None
    if first is None or len(first.shape) != 4 or not first.dtype.startswith("float"):
        return []
    channels, *sides = (dim.constant for dim in first.shape[1:])
    sizes = [[max(32, int(share * side) // 32 * 32) for side in sides] for share in _SMALLER_INPUTS]
    return [f"{channels}x{height}x{width}" for height, width in sizes if [height, width] != sides]


def _spell(answer: "MemoryAnswer", spelling: Format, *, rule_of_thumb: bool) -> str:
    from capplan.report.documents.memory import memory_to_json
    from capplan.report.text.memory import render_memory_csv, render_memory_markdown, render_memory_text

    if spelling is Format.JSON:
        return to_json(memory_to_json(answer))
    if spelling is Format.CSV:
        return render_memory_csv(answer)
    render = render_memory_markdown if spelling is Format.MD else render_memory_text
    return render(answer, rule_of_thumb=rule_of_thumb)


def _draw(model: "MemoryModel", answer: "MemoryAnswer") -> str:
    from capplan.report.charts.memory import render_live_svg

    batch = answer.estimate.batch
    live: list[int] = model.curve.at(batch).tolist()
    op = max(0, live.index(max(live)) - 1)
    recording = model.recording
    kernel, module = recording.kernels[recording.ops[op].kernel].name, recording.modules[recording.ops[op].module]
    return render_live_svg(
        live,
        title=f"{answer.name}, batch {batch}: live bytes of weights, inputs and activations",
        peak_label=f"{kernel} {module}".strip(),
        phases=[(f"{phase.name} {phase.step}", phase.first_op) for phase in recording.phases],
    )
