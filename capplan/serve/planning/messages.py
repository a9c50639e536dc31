"""What travels to a process that answers questions and back: jobs to trace, and replies."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from capplan.app.trace_cache import TraceKey
from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import ModelRequest
from capplan.verbs.statement.options import Door, words_at
from capplan.verbs.statement.registry import verb_of
from capplan.wording import worded


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
    def question(self) -> TraceKey:
        """Return the key under which the trace is kept; a model named by words has the command line's own."""
        words, options = self.request.words, self.request.options
        if self.content is not None:
            named = words.replace("/", " ")  # a word with a slash would be kept as a file of the folder at hand
            kind = "config" if words.startswith("hf:") else "file"
            words, options = f"{kind} handed over", (hashlib.sha256(self.content).hexdigest(), named, *options)
        return TraceKey(
            words=words, options=options, configurations=(self.configuration,), exact_batch=self.exact_batch
        )


BUG = 70
"""The exit code of an exception that nothing expected, as of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a question has no answer, or a model no trace: the sentence, which marks fields, and the exit code."""

    message: str
    exit_code: int

    def worded(self, question: Any, door: Door = Door.HTTP) -> str:
        """Return the sentence as a door words it to whom asked a question."""
        verb = verb_of(question)
        return worded(self.message, words_at(() if verb is None else verb.fields, door))


Spelling = Literal["json", "table", "csv", "md", "html", "pdf", "xlsx", "gz"]
MEDIA_TYPES: Mapping[Spelling, str] = {
    "json": "application/json",
    "table": "text/plain; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "gz": "application/gzip",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A question, how its answer is written (as text, too, for an assistant), and what is known to have failed."""

    question: Any
    spelling: Spelling = "json"
    width: int = 100
    has_text: bool = False
    failures: Mapping[TraceJob, Refusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The content of an answer.

    Attributes:
        exit_code: What the command line would exit with: 1 where nothing fits.
        warning: What the command line would print beside the answer.
        text: The same answer as a table, or as Markdown where it has none; empty where it was not asked for.
        hints: Traces that remarks of the answer lack, which the service makes afterwards.
    """

    content: bytes
    media_type: str
    exit_code: int = 0
    warning: str = ""
    text: str = ""
    hints: tuple[TraceJob, ...] = ()


Outcome = Reply | Refusal | tuple[TraceJob, ...]
"""What comes of a question; traces must be made before it can be answered."""
