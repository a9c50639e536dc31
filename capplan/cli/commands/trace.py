"""`capplan trace`: a model into a file of facts that needs neither torch nor the model afterwards."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.groups import with_groups
from capplan.cli.output import warn, write_atomically
from capplan.cli.progress import TERMINAL
from capplan.core.workload import Configuration, Layout, Precision
from capplan.errors import UsageError


@with_groups
def trace(
    *,
    model: options.Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="FILE.trace.json, or .json.gz for a compressed one.")],
    inputs: options.ModelOptions,
    precision: Annotated[
        list[Precision] | None,
        typer.Option(help="Numeric variants to record; repeatable; fp16 stands for bf16 too.", show_default=False),
    ] = None,
    layout: options.LayoutOption = Layout.NCHW,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch", min=1, help="Trace at this batch alone, for models that do not grow evenly.", show_default=False
        ),
    ] = None,
    steps: options.TrainingOptions,
    anonymize: Annotated[bool, typer.Option("--anonymize", help="Drop the names of modules and parameters.")] = False,
) -> None:
    """Trace a model into a file, from which everything else is arithmetic.

    Examples:

      capplan trace resnet50 -o resnet50.trace.json

      capplan trace timm:vit_base_patch16_224 --precision fp32 --precision fp16 -o vit.trace.json.gz
    """
    from capplan.app.trace import TraceRequest
    from capplan.app.trace import trace as make_trace
    from capplan.core.trace.format import dump_trace

    if output.suffix not in (".json", ".gz"):
        raise UsageError(f"{output}: a trace is written as .json or .json.gz.")
    training = steps.training()
    halves = {each.variant: each.half_dtype or "bfloat16" for each in reversed(precision or [Precision.FP32])}
    variants = dict.fromkeys(each.variant for each in precision or [Precision.FP32])
    request = TraceRequest(
        model=inputs.request(model),
        configurations=tuple(
            Configuration(variant=each, layout=layout, training=training, half_dtype=halves[each]) for each in variants
        ),
        exact_batch=batch,
        is_anonymous=anonymize,
    )
    made = make_trace(request, feedback=TERMINAL)
    write_atomically(output, dump_trace(made, compress=output.suffix == ".gz"))
    for note in made.provenance.notes:
        warn(f"note: {note}")
    warn(f"{output}: {made.name}, {', '.join(str(each.configuration) for each in made.recordings)}")
