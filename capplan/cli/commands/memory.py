"""`capplan memory`: the peak of a model's GPU memory by part, where it stands, and the largest batch that fits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, check_plots, laid_out, to_json, write_plot
from capplan.cli.progress import TERMINAL
from capplan.core.workload import DEFAULT_UTILIZATION
from capplan.errors import UnknownNameError

if TYPE_CHECKING:
    from capplan.app.memory import MemoryResult
    from capplan.core.memory.sharding import Sharding
    from capplan.core.memory.summary import MemoryAnswer
    from capplan.report.charts.look import Drawing

SHARDINGS = ("replicas", "ddp", "zero1", "zero2", "zero3", "fsdp")


@with_groups
def memory(
    *,
    model: options.Model,
    inputs: options.ModelOptions,
    batch: Annotated[
        int | None, typer.Option("--batch", "-b", help="Batch size on each GPU; 1, or what a file is fixed to.")
    ] = None,
    gpu: options.GpuNames = None,
    specs: options.SpecFolders = None,
    conditions: options.WorkloadOptions,
    utilization: options.Utilization = DEFAULT_UTILIZATION,
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs that share the work.")] = 1,
    sharding: Annotated[
        list[str] | None,
        typer.Option(help=f"How they share it: {', '.join(SHARDINGS)}; repeatable; all that apply by default."),
    ] = None,
    expandable_segments: Annotated[
        bool, typer.Option("--expandable-segments", help="As with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.")
    ] = False,
    advice: Annotated[
        bool, typer.Option("--advice", help="Work out what other precisions, layouts, optimizers, ... would save.")
    ] = False,
    rule_of_thumb: Annotated[
        bool, typer.Option("--rule-of-thumb", help="Compare with the classic estimate, and what it misses.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|png|pdf|html", help="Draw live bytes over the operators.", show_default=False),
    ] = None,
    strict: options.Strict = False,
    answer: options.AnswerOptions,
) -> None:
    """Estimate how much GPU memory a model needs, by part, and the largest batch that fits.

    Examples:

      capplan memory resnet50 --batch 32 --gpu l4

      capplan memory timm:vit_base_patch16_224 --batch 64 --train --precision amp-bf16 --gpu rtx-4090 --advice

      capplan memory hf:gpt2 --seq-len 1024 --batch 8 --train --gpus 8 --format json
    """
    from capplan.app.gpus.choice import GpuRequest
    from capplan.app.memory import MemoryRequest
    from capplan.app.memory import memory as answer_memory

    chosen = answer.format()
    check_plots(plot)
    request = MemoryRequest(
        model=inputs.request(model),
        batch=batch,
        gpus=GpuRequest(ids=tuple(gpu), overlays=tuple(specs or ())) if gpu else None,
        workload=conditions.workload(inputs),
        utilization_fraction=utilization,
        rank_count=gpus,
        shardings=_shardings(sharding or []),
        has_expandable_segments=expandable_segments,
        advises=advice,
        is_strict=strict,
    )
    made = answer_memory(request, feedback=TERMINAL)
    if plot is not None:
        write_plot(_draw(made), plot)
    answer.emit(_render(made.answer, chosen, rule_of_thumb=rule_of_thumb))
    if made.answer.gpus and all(each.status.value == "does not fit" for each in made.answer.gpus):
        raise typer.Exit(1)


def _shardings(names: list[str]) -> "tuple[Sharding, ...]":
    from capplan.core.memory.sharding import Sharding

    for name in names:
        if name not in SHARDINGS:
            raise UnknownNameError("sharding", name, SHARDINGS, hint=f"Known: {', '.join(SHARDINGS)}.")
    return tuple(map(Sharding, names))


def _render(answer: "MemoryAnswer", chosen: Format, *, rule_of_thumb: bool) -> str:
    from capplan.report.documents.memory import memory_document
    from capplan.report.text.memory import memory_sections

    if chosen is Format.JSON:
        return to_json(memory_document(answer))
    return laid_out(memory_sections(answer, rule_of_thumb=rule_of_thumb), chosen)


def _draw(made: "MemoryResult") -> "Drawing":
    from capplan.report.charts.memory import live_chart

    batch = made.answer.estimate.batch
    live: list[int] = made.model.curve.at(batch).tolist()
    op = max(0, live.index(max(live)) - 1)
    recording = made.model.recording
    kernel, module = recording.kernels[recording.ops[op].kernel].name, recording.modules[recording.ops[op].module]
    return live_chart(
        live,
        title=f"{made.answer.name}, batch {batch}: live bytes of weights, inputs and activations",
        peak_label=f"{kernel} {module}".strip(),
        phases=[(f"{phase.name} {phase.step}", phase.first_op) for phase in recording.phases],
    )
