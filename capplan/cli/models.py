"""From the words on a command line to traces: read from a file, from the cache, or made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.cli.progress import progress
from capplan.core.workload import Configuration
from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.core.ops.counters import Comparison
    from capplan.core.trace.types import Trace
    from capplan.probe.target.types import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWords:
    """What the user said of a model: its name, arguments and inputs, as typed."""

    words: str
    arguments: Sequence[str] = ()
    inputs: Sequence[str] = ()
    input_size: str | None = None
    sequence_length: int | None = None
    inputs_from: str | None = None
    prepare: Sequence[str] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """Everything said of its arguments and inputs, spelt as on the command line."""
        repeated = (("--arg", self.arguments), ("--input", self.inputs), ("--prepare", self.prepare))
        words = [word for option, values in repeated for value in values for word in (option, value)]
        single = (
            ("--input-size", self.input_size),
            ("--seq-len", self.sequence_length),
            ("--inputs-from", self.inputs_from),
        )
        return (*words, *(word for option, value in single if value is not None for word in (option, str(value))))

    @property
    def is_trace_file(self) -> bool:
        """True where the words name an existing trace file."""
        return read_trace_file(self.words) is not None


def read_trace_file(words: str) -> "Trace | None":
    """Read a trace, if the words name a file that holds one.

    Raises:
        TraceFileError: it is a trace file, but damaged or from a newer version.
        UsageError: a file that ends like a trace is missing or cannot be read.
    """
    from capplan.core.trace.format import is_trace_content, load_trace

    path = Path(words)
    looks_like_one = words.endswith((".trace.json", ".trace.json.gz", ".json.gz"))
    if not looks_like_one and (":" in words or path.suffix != ".json"):
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {words}: {error.strerror or error}.") from error
    if looks_like_one or is_trace_content(content):
        return load_trace(content, where=words)
    raise UsageError(f"{words} is JSON but no trace file; for a transformers config write hf:{words}.")


def obtain_trace(
    model: ModelWords, configurations: Sequence[Configuration], *, exact_batch: int | None = None
) -> "Trace":
    """Give the trace of a model with the recordings asked for, from its file or by tracing it.

    Raises:
        UsageError: no such model, or words that only a model to be traced can take beside a trace file.
        TraceError: the model could not be traced.
    """
    if (trace := read_trace_file(model.words)) is not None:
        if model.arguments or model.inputs or model.input_size or model.sequence_length or model.prepare:
            raise UsageError(f"{model.words} is a trace: its arguments and inputs are fixed; trace the model again.")
        return trace
    from capplan.app.cache import Question, default_cache, files_behind

    question = Question(
        words=model.words, options=model.options, configurations=tuple(configurations), exact_batch=exact_batch
    )
    cache = default_cache()
    if cache is not None and (kept := cache.find(question)) is not None:
        return kept
    with progress(f"tracing {model.words}"):
        from capplan.probe.trace.tracer import trace_target

        trace = trace_target(find_target(model), configurations=configurations, exact_batch=exact_batch)
    if cache is not None:
        cache.keep(question, trace, files=files_behind(question))
    return trace


def find_target(model: ModelWords) -> "Target":
    """Find the model that words name, to be built.

    Raises:
        UsageError: no such model, or arguments or inputs that it does not take.
    """
    from capplan.probe.inputs.grammar import parse_request
    from capplan.probe.target.resolve import load_target

    request = parse_request(
        arg=model.arguments,
        inputs=model.inputs,
        input_size=model.input_size,
        seq_len=model.sequence_length,
        inputs_from=model.inputs_from,
        prepare=model.prepare,
    )
    return load_target(model.words, request=request)


def compare_with_others(
    model: ModelWords, trace: "Trace", configuration: Configuration, batch: int
) -> "tuple[Comparison, ...]":
    """Count a model by thop, fvcore and torch's counter, and explain what differs.

    Raises:
        UsageError: the words name a trace file, of which no module can be built.
    """
    if model.is_trace_file:
        raise UsageError(f"{model.words} is a trace: the other counters need the model itself.")
    with progress(f"counting {model.words} by other counters"):
        from capplan.probe.counters import compare_counters

        return compare_counters(find_target(model), trace, trace.recording(configuration), batch=batch)
