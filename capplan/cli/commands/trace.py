"""`capplan trace`: a model into a file of facts that needs neither torch nor the model afterwards."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.models import ModelWords, obtain_trace
from capplan.cli.output import warn, write_atomically
from capplan.core.workload import Configuration, Layout, Optimizer, Precision
from capplan.errors import UsageError


def trace(
    model: options.Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="FILE.trace.json, or .json.gz for a compressed one.")],
    arg: options.ModelArguments = None,
    input_: options.Inputs = None,
    input_size: options.InputSize = None,
    seq_len: options.SequenceLength = None,
    inputs_from: options.InputsFrom = None,
    prepare: options.Prepare = None,
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
    train: options.Train = False,
    optimizer: options.OptimizerOption = Optimizer.ADAMW,
    checkpointing: options.Checkpointing = False,
    accumulate: options.Accumulate = 1,
    anonymize: Annotated[bool, typer.Option("--anonymize", help="Drop the names of modules and parameters.")] = False,
) -> None:
    """Trace a model into a file, from which everything else is arithmetic.

    Examples:

      capplan trace resnet50 -o resnet50.trace.json

      capplan trace timm:vit_base_patch16_224 --precision fp32 --precision fp16 -o vit.trace.json.gz
    """
    from capplan.core.trace.format import dump_trace

    if output.suffix not in (".json", ".gz"):
        raise UsageError(f"{output}: a trace is written as .json or .json.gz.")
    training = options.make_training(
        train=train, optimizer=optimizer, checkpointing=checkpointing, accumulate=accumulate
    )
    variants = dict.fromkeys(each.variant for each in precision or [Precision.FP32])
    configurations = [Configuration(variant=variant, layout=layout, training=training) for variant in variants]
    words = ModelWords(
        words=model,
        arguments=arg or (),
        inputs=input_ or (),
        input_size=input_size,
        sequence_length=seq_len,
        inputs_from=inputs_from,
        prepare=prepare or (),
    )
    made = obtain_trace(words, configurations, exact_batch=batch)
    if anonymize:
        from capplan.core.trace.anonymize import anonymize_trace

        made = anonymize_trace(made)
    write_atomically(output, dump_trace(made, compress=output.suffix == ".gz"))
    for note in made.provenance.notes:
        warn(f"note: {note}")
    warn(f"{output}: {made.name}, {', '.join(str(each.configuration) for each in made.recordings)}")
