"""A question in the words of the command line, which answers the same."""

import shlex

from capplan.serve.questions.types import GpuPart, ReportQuestion


def report_command(question: ReportQuestion) -> str:
    """Return the command that makes the same report."""
    words = ["capplan", "report", *_model_words(question), "--batch", _batches(question.batches)]
    words += ["--load", "load.yaml"] if question.load is not None else []
    words += _gpu_words(question)
    words += _repeated("--provider", question.providers) + _repeated("--region", question.regions)
    words += ["--title", question.title] if question.title else []
    return shlex.join(words)


def _model_words(part: GpuPart) -> list[str]:
    words = [part.model or "hf:config.json"]
    words += [word for name, value in part.arguments.items() for word in ("--arg", f"{name}={value}")]
    words += _repeated("--input", part.inputs)
    if part.input_size is not None:
        size = part.input_size
        words += ["--input-size", size if isinstance(size, str) else "x".join(map(str, size))]
    words += ["--seq-len", str(part.seq_len)] if part.seq_len is not None else []
    words += ["--weights", part.weights] if part.weights else []
    return words + (["--activations", part.activations] if part.activations else [])


def _gpu_words(part: GpuPart) -> list[str]:
    words = ["--gpu", ",".join(part.gpus)] if part.gpus else []
    words += _repeated("--where", part.where) + _repeated("--vendor", part.vendors)
    words += _repeated("--arch", part.architectures)
    words += ["--min-memory", part.min_memory] if part.min_memory else []
    words += ["--precision", part.precision] if part.precision else []
    words += ["--framework", part.framework] if part.framework != "eager" else []
    words += ["--layout", part.layout] if part.layout != "nchw" else []
    return words + (["--train"] if part.training else [])


def _batches(batches: list[int] | str) -> str:
    return batches if isinstance(batches, str) else ",".join(map(str, batches))


def _repeated(option: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
