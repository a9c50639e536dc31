"""Answer one question from the data at hand, as the command line answers it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.gpu_choice import GpuRequest
from capplan.app.models import Model, ModelSource, QuantisedSource, open_model
from capplan.core.quantisation.schemes import find_scheme
from capplan.errors import CapplanError, UsageError
from capplan.hub.names import parse_hub_name
from capplan.hub.permission import hub_forbidden
from capplan.hub.repository import find_repository
from capplan.printable import printable
from capplan.probe.inputs.grammar import parse_argument
from capplan.probe.target.hub_names import config_place, find_on_hub
from capplan.report.text.styled import plain_text
from capplan.serve.planning.data import Data
from capplan.serve.planning.messages import MEDIA_TYPES, Outcome, Refusal, Reply, Task, TraceJob
from capplan.serve.planning.models import NamedModel, UploadedModel
from capplan.serve.planning.naming import (
    CONFIG_PREFIX,
    FILE_PREFIX,
    TRACE_PREFIX,
    checked_arguments,
    checked_config,
    checked_pipeline,
    config_name,
    model_request,
)
from capplan.specs import Gpus
from capplan.specs.prices import Prices
from capplan.verbs.plan import PlanQuestion
from capplan.verbs.statement.contract import Context, Look, Verb
from capplan.verbs.statement.fields import GpuFields, ModelFields
from capplan.verbs.statement.read import command_of
from capplan.verbs.statement.registry import verb_of
from capplan.wording import WordOf, option_of, worded

if TYPE_CHECKING:
    from capplan.core.latency.calibration import Calibration
    from capplan.core.plan.planner import Prepared


_LANGUAGE_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


class TaskContext(Context):
    """One task, with the data that it is answered from and the traces that it turns out to need.

    `needed` are all traces that were not found, also for remarks that an answer may lack; `missing` are those
    without which one of several models has no answer. `may_lack_hints` is set for a plan: what other conditions would
    change is a remark beside it, while other answers, such as advice, are not given without all their traces.
    """

    def __init__(self, task: Task, data: Data) -> None:
        """Store a task and the data for it."""
        self.task = task
        self.data = data
        self.needed: dict[TraceJob, None] = {}
        self.missing: list[TraceJob] = []
        self.may_lack_hints = False

    def command(self, verb: Verb[Any, Any], question: Any) -> str:
        """Return the command that asks a question on another machine."""
        return command_of(verb, question)

    def gpus(self, question: GpuFields) -> GpuRequest:
        """Return the request for the GPUs that a question names, in the database of the service."""
        return self.data.gpu_request(question)

    def model(self, part: ModelFields) -> ModelSource:
        """Return the model that a question is about: an uploaded trace, or one whose traces are looked up."""
        source = self._full_width(part)
        scheme = find_scheme(part.quantised_weights(), part.activations)
        return source if scheme is None else QuantisedSource(source=source, scheme=scheme)

    def gpu_database(self, specs: Sequence[Path] = ()) -> Gpus:
        """Return the GPUs of the service; a question brings no specs of its own."""
        del specs
        return self.data.gpus

    def price_list(self, specs: Sequence[Path] = ()) -> Prices:
        """Return the prices of the service."""
        del specs
        return self.data.prices

    def pipeline_words(self, words: str) -> str:
        """Return the name of a published diffusers pipeline; a file or folder of this machine is not read."""
        return checked_pipeline(words)

    def language_model(self, words: str) -> str:
        """Return a name of the catalogue, or of none; never one of a file, and of the Hub only where it is allowed."""
        if self.data.allows_hub and parse_hub_name(words) is not None:
            return words
        if not _LANGUAGE_MODEL.fullmatch(words):
            raise UsageError(
                f"{words!r} is not taken here: name a model of `capplan llm models`; the service reads no files, and "
                "asks the Hugging Face Hub only where its operator starts it with --hub."
            )
        return words

    def _full_width(self, part: ModelFields) -> Model:
        words = part.model.strip()
        if part.config is not None:
            if words:
                raise UsageError("give either `model` or `config`, not both.")
            return self._config_model(part, part.config)
        if words.startswith(CONFIG_PREFIX):
            return self._config_model(part, self.data.configs.find(words.removeprefix(CONFIG_PREFIX)))
        if words.startswith(FILE_PREFIX):
            name, content = self.data.files.find(words.removeprefix(FILE_PREFIX))
            return self._served(model_request(part, file=name), content)
        if words.startswith(TRACE_PREFIX):
            if replace(part.of(""), weights=None, activations=None) != ModelFields():
                raise UsageError(f"{words} is a trace: its arguments and inputs are fixed; trace the model again.")
            held = self.data.shelf.uploaded(words.removeprefix(TRACE_PREFIX))
            return UploadedModel(held=held, words=held.target, shelf=self.data.shelf)
        if self.data.allows_hub and parse_hub_name(words) is not None:
            return self._hub_model(part, words)
        request = model_request(part)
        return self._served(request, None)

    def _hub_model(self, part: ModelFields, words: str) -> NamedModel:
        """Return a model of the Hub: as a config that was handed over, or as one of timm with its arguments."""
        found = find_on_hub(replace(part, model=words).model_request()).request
        on_hub = parse_hub_name(found.words)
        if on_hub is None:
            asked = model_request(replace(part, model=found.words))
            checked_arguments(dict(map(parse_argument, found.arg)))
            return self._served(replace(asked, arg=found.arg, input_size=found.input_size), None)
        repository = find_repository(on_hub)
        config = repository.json(config_place(repository) or "config.json")
        name = f"{repository.id.rpartition('/')[2]}+{repository.commit[:7]}"
        return self._config_model(replace(part, model="", config=None), {**config, "_name_or_path": name})

    def _config_model(self, part: ModelFields, config: Mapping[str, Any]) -> NamedModel:
        content = checked_config(config)
        named = model_request(replace(part, model="hf:config", config=None))
        return self._served(replace(named, words=f"hf:{config_name(config)}/config.json"), content)

    def _served(self, request: Any, content: bytes | None) -> NamedModel:
        request.parse()
        return NamedModel(
            words=request.words,
            request=request,
            shelf=self.data.shelf,
            content=content,
            failures=self.task.failures,
            needed=self.needed,
        )

    def spell(
        self,
        writers: Mapping[str, Callable[[], str | bytes]],
        *,
        exit_code: int = 0,
        warning: str = "",
        word_of: WordOf = option_of,
    ) -> Reply:
        """Format an answer as the task requests, with the words of the command line, whose document it is, or a
        form's.
        """
        spelling = self.task.spelling
        if spelling not in writers:
            raise UsageError(f"this answer has no format {spelling!r}; use {', '.join(writers)}.")
        content = writers[spelling]()
        encoded = content if isinstance(content, bytes) else printable(worded(content, word_of)).encode()
        text = writers["table" if "table" in writers else "md"]() if self.task.has_text else ""
        return Reply(
            content=encoded,
            media_type=MEDIA_TYPES[spelling],
            exit_code=exit_code,
            warning=worded(warning, word_of),
            text=printable(worded(str(text), word_of)),
        )


def answer(task: Task, data: Data) -> Outcome:
    """Answer a question, or return what it needs first, or the sentence that says why it has no answer."""
    case = TaskContext(task, data)
    try:
        with hub_forbidden(is_forbidden=not data.allows_hub):
            reply = derive(task.question, case)
    except CapplanError as error:
        if case.needed:
            return tuple(case.needed)
        return Refusal(message=str(error), exit_code=error.exit_code)
    if case.missing or not case.may_lack_hints:
        needed = case.missing or list(case.needed)
        return tuple(needed) or reply
    return replace(reply, hints=tuple(case.needed))


@singledispatch
def derive(question: Any, case: TaskContext) -> Reply:
    """Answer a question: by its verb, or by what is registered here for its type."""
    verb = verb_of(question)
    if verb is None:
        raise TypeError(f"no answer to a {type(question).__name__}")
    look = Look(format=case.task.spelling, width=case.task.width)
    question = verb.finalize(question, look)
    answer = verb.answer(question, case)
    outcome = verb.outcome(answer)

    def written(spelling: str) -> str | bytes:
        content = verb.write([answer], question, replace(look, format=spelling))
        return content if isinstance(content, str | bytes) else plain_text(content)

    writers = {spelling: partial(written, spelling) for spelling in verb.formats}
    case.may_lack_hints = verb.defer_hints
    return case.spell(writers, exit_code=outcome.exit_code, warning=" ".join(outcome.warnings))


def opened(part: PlanQuestion, case: TaskContext) -> "tuple[Prepared, Calibration]":
    """Return what plans of a question's model share, and the calibration of its times."""
    from capplan.specs.calibration import load_calibration, load_memory_calibration

    workload, calibration = part.workload(part.default_precision()), load_calibration()
    model = open_model(case.model(part))
    trace = model.trace([workload.configuration])
    ready = model.prepared(trace, workload, calibration=calibration, memory_calibration=load_memory_calibration())
    return ready, calibration
