"""`capplan analyze`: parameters, MACs, FLOPs and bytes of a model, by operator and by module."""

from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.models import ModelWords, compare_with_others, obtain_trace
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json
from capplan.core.workload import Configuration, Layout, Optimizer, Precision
from capplan.errors import TraceError, UsageError


def analyze(
    model: options.Model,
    arg: options.ModelArguments = None,
    input_: options.Inputs = None,
    input_size: options.InputSize = None,
    seq_len: options.SequenceLength = None,
    inputs_from: options.InputsFrom = None,
    prepare: options.Prepare = None,
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, help="Batch size of all counts.")] = 1,
    precision: options.PrecisionOption = None,
    layout: options.LayoutOption = Layout.NCHW,
    train: options.Train = False,
    optimizer: options.OptimizerOption = Optimizer.ADAMW,
    checkpointing: options.Checkpointing = False,
    accumulate: options.Accumulate = 1,
    depth: Annotated[
        int | None,
        typer.Option(
            min=0, help="Depth of the module view; by default 2 in tables, whole in data.", show_default=False
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Set thop, fvcore and torch's counter beside, differences explained.")
    ] = False,
    strict: options.Strict = False,
    format_: FormatOption = None,
    json_: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Count a model's parameters, MACs, FLOPs and bytes.

    Examples:

      capplan analyze resnet50

      capplan analyze hf:bert --seq-len 128 --format json
    """
    from capplan.core.ops.analysis import analyze_trace
    from capplan.report.text import analysis as analysis_table
    from capplan.report.text import counters as comparison_table

    spelling = resolve_format(format_, json_flag=json_, output=output)
    if compare and spelling is Format.CSV:
        raise UsageError("--compare has no CSV spelling: use table, md or json.")
    if compare and train:
        raise UsageError("--compare sets inference beside inference: drop --train.")
    words = ModelWords(
        words=model,
        arguments=arg or (),
        inputs=input_ or (),
        input_size=input_size,
        sequence_length=seq_len,
        inputs_from=inputs_from,
        prepare=prepare or (),
    )
    configuration = Configuration(
        variant=(precision or Precision.FP32).variant,
        layout=layout,
        training=options.make_training(
            train=train, optimizer=optimizer, checkpointing=checkpointing, accumulate=accumulate
        ),
    )
    trace = obtain_trace(words, [configuration])
    exact = trace.recording(configuration).exact_batch
    if exact is not None and exact != batch:
        trace = obtain_trace(words, [configuration], exact_batch=batch)
    shown_depth = 2 if depth is None and spelling in (Format.TABLE, Format.MD) else depth
    analysis = analyze_trace(trace, configuration=configuration, batch=batch, depth=shown_depth)
    if strict and (analysis.uncounted or trace.recording(configuration).guesses):
        raise TraceError(f"{model}: {analysis_table.coverage_line(analysis)}.")
    comparisons = compare_with_others(words, trace, configuration, batch) if compare else ()
    if spelling is Format.JSON:
        document = analysis_table.analysis_to_json(analysis)
        if compare:
            document["comparison"] = [comparison_table.comparison_to_json(one) for one in comparisons]
        content = to_json(document)
    else:
        render = {
            Format.TABLE: analysis_table.render_analysis_text,
            Format.MD: analysis_table.render_analysis_markdown,
            Format.CSV: analysis_table.render_analysis_csv,
        }[spelling]
        content = render(analysis)
        if compare:
            beside = {
                Format.TABLE: comparison_table.render_comparison_text,
                Format.MD: comparison_table.render_comparison_markdown,
            }[spelling]
            figures = beside(comparisons, macs=analysis.macs, params=trace.parameter_count)
            content = f"{content}\n{figures}"
    emit(content, output=output)
