"""Answer questions on this machine: models are files, packages and objects of this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.gpu_choice import GpuRequest
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Verb
from capplan.verbs.statement.fields import GpuFields, ModelFields
from capplan.verbs.statement.read import command_of

if TYPE_CHECKING:
    from capplan.app.models import ModelSource
    from capplan.core.gpus.spec import GpuSpec
    from capplan.probe.inputs.grammar import InputRequest
    from capplan.probe.target.types import Target
    from capplan.specs import Gpus
    from capplan.specs.prices import Prices


@dataclass(kw_only=True)
class LocalContext(Context):
    """What this machine and this process hold.

    Attributes:
        feedback: where progress is shown.
        objects: modules and traces by the words that stand for them in the question.
        make: the function of the batch size that returns the inputs.
        arguments: arguments of the constructor that are not plain values.
        database: the GPUs that were loaded already.
        gpu_specs: GPUs that were handed over whole.
        typed: the command as it was typed, or the name of the Python function.
    """

    feedback: Feedback = SILENCE
    objects: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[[int], Any] | None = None
    arguments: Mapping[str, Any] | None = None
    database: "Gpus | None" = None
    gpu_specs: "tuple[GpuSpec, ...]" = ()
    typed: str = ""

    def model(self, question: ModelFields) -> "ModelSource":
        """Return the model that a question's words name, or the object that stands for it."""
        is_words = question.model not in self.objects and self.make is None and self.arguments is None
        return question.model_request() if is_words else self._live_source(question)

    def held(self, words: str) -> Any:
        """Return the object that was handed over under words, or the words themselves."""
        return self.objects.get(words, words)

    def command(self, verb: Verb[Any, Any], question: Any) -> str:
        """Return the command as it was typed, or else one that asks the same."""
        return self.typed or command_of(verb, question)

    def names_gpus(self, question: GpuFields) -> bool:
        """Return True if a question is about some GPUs, or about those that were handed over."""
        return question.narrows or bool(self.gpu_specs) or self.database is not None

    def gpus(self, question: GpuFields) -> GpuRequest:
        """Return the request for the GPUs that a question names, in the database of this installation."""
        return GpuRequest(
            ids=question.gpus,
            specs=self.gpu_specs,
            with_cpus=question.with_cpus,
            overlays=question.specs,
            database=self.database,
            filters=question.gpu_filters(),
        )

    def gpu_database(self, specs: Sequence[Path] = ()) -> "Gpus":
        """Return the GPUs that were handed over, else those of this installation with own specs laid over them."""
        from capplan.specs import load_gpus
        from capplan.specs.folders import own_overlays

        if self.gpu_specs:
            raise UsageError("name GPUs here, such as 'l4'; or hand over a whole database of `load_gpus`.")
        if self.database is not None:
            return self.database
        return load_gpus(overlays=specs) if specs or own_overlays() else _built_in_gpus()

    def price_list(self, specs: Sequence[Path] = ()) -> "Prices":
        """Return the prices of this installation, those of own specs laid over them."""
        from capplan.specs.prices import load_prices

        return load_prices(self.gpu_database(specs), overlays=[folder for folder in specs if folder.is_dir()])

    def language_model(self, words: str) -> str:
        """Return the words of a language model: a name, a file of this machine, or a repository of the hub."""
        if words in self.objects:
            raise UsageError("name a language model by words, such as 'llama-3.1-8b-instruct' or 'hf:FOLDER'.")
        return words

    def _live_source(self, question: ModelFields) -> "ModelSource":
        """Return a model that this process holds: a trace, or a module with its inputs; or one built of its objects."""
        from capplan.app.models import QuantisedSource
        from capplan.core.quantisation.schemes import find_scheme
        from capplan.core.trace.types import Trace

        model, make = self.objects.get(question.model, question.model), self.make
        values = dict(question.arguments if self.arguments is None else self.arguments)
        words = "" if question.model in self.objects else question.model
        request = replace(question.model_request(), words=words, arg=(), weights=None, activations=None)
        scheme = find_scheme(question.quantised_weights(), question.activations)
        if isinstance(model, str) and make is not None:
            raise UsageError(f"{model}: inputs made by a function need the module itself; pass it instead of its name.")
        source: Trace | Target
        if isinstance(model, Trace):
            if values or make is not None or request != type(request)(words=request.words):
                raise UsageError(f"{model.name} is a trace: its arguments and inputs are fixed; trace the model again.")
            source = model
        else:
            source = _target(model, replace(request.parse(), arguments=tuple(values.items())), make)
        return source if scheme is None else QuantisedSource(source=source, scheme=scheme)


@cache
def _built_in_gpus() -> "Gpus":
    from capplan.specs import load_gpus

    return load_gpus()


def _target(model: Any, request: "InputRequest", make: Callable[[int], Any] | None) -> "Target":
    from capplan.probe.target.resolve import as_requested, load_target
    from capplan.probe.target.sources.code import module_target

    if isinstance(model, str):
        return load_target(model, request=request)
    return as_requested(module_target(model, request=request, make=make), request)
