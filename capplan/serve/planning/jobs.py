"""What is to be traced, as plain data that travels between processes."""

import hashlib
from dataclasses import dataclass

from capplan.app.kept_traces.cache import Question
from capplan.core.workload import Configuration
from capplan.probe.inputs.request import ModelRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One recording of one model.

    Attributes:
        request: The model by name, with its arguments and inputs.
        content: The content of a file that was handed over: a config.json, whose model `request` then names by
            `hf:NAME/config.json`, or a model's file, which it names by NAME.onnx or NAME.pt2.
        exact_batch: The only batch to trace at.
    """

    request: ModelRequest
    content: bytes | None = None
    configuration: Configuration
    exact_batch: int | None = None

    @property
    def question(self) -> Question:
        """Return the key under which the trace is kept; a model named by words has the command line's own."""
        words, options = self.request.words, self.request.options
        if self.content is not None:
            named = words.replace("/", " ")  # a word with a slash would be kept as a file of the folder at hand
            kind = "config" if words.startswith("hf:") else "file"
            words, options = f"{kind} handed over", (hashlib.sha256(self.content).hexdigest(), named, *options)
        return Question(
            words=words, options=options, configurations=(self.configuration,), exact_batch=self.exact_batch
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a model could not be traced: the sentence, and the exit code that the command line would end with."""

    message: str
    exit_code: int
