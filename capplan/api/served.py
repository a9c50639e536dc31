"""The verbs that a service answers, as methods of a client; `capplan.api.stub` makes their types in `served.pyi`."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from capplan.errors import nearest_names

if TYPE_CHECKING:
    from capplan.verbs.statement.contract import Verb
    from capplan.verbs.statement.options import Field


def methods() -> "dict[str, Verb[Any, Any]]":
    """Return the verbs whose answers are documents, by the names of their methods, such as llm_plan."""
    from capplan.verbs.statement.registry import find_verb, served_verbs

    verbs = {path.replace(" ", "_").replace("-", "_"): find_verb(path) for path in served_verbs()}
    return {name: verb for name, verb in verbs.items() if verb.schema is not None}


def places(verb: "Verb[Any, Any]") -> "tuple[Field, ...]":
    """Return the fields that a method takes by their place."""
    from capplan.verbs.statement.options import Door

    return tuple(field for field in verb.fields_at(Door.HTTP) if field.option.is_argument or field.is_required)


class ServedVerbs(ABC):
    """Has a method for each verb that a service answers: options by name, and the document that is answered."""

    @abstractmethod
    def ask(self, name: str, question: dict[str, Any], *, spelling: str = "json") -> Any:
        """Return the answer to a question as it was sent."""

    @abstractmethod
    def upload(self, trace: Any) -> str:
        """Upload a trace, and return the words that name it as a model."""

    def __getattr__(self, name: str) -> "Callable[..., Any]":
        known = {} if name.startswith("_") else methods()
        if name not in known:
            meant = nearest_names(name, known)
            raise AttributeError(
                f"{type(self).__name__!r} has no {name!r}{f'; did you mean {meant}?' if meant else ''}"
            )
        return partial(self._document, known[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *methods()]

    def _document(self, verb: "Verb[Any, Any]", *positional: Any, format: str = "json", **question: Any) -> Any:
        """Ask a verb, and return its document, or the content of a file in another format."""
        named = [field.wire for field in places(verb)]
        if len(positional) > len(named):
            raise TypeError(
                f"{verb.path} takes {', '.join(named) or 'no value'} by place; name the others, OPTION=VALUE"
            )
        asked = {**dict(zip(named, positional, strict=False)), **question}
        for key in ("model", "models"):
            if asked.get(key) is None:
                asked.pop(key, None)
            elif not isinstance(asked[key], str | list | tuple):
                asked[key] = self.upload(asked[key])
        reply = self.ask(verb.path.replace(" ", "/"), asked, spelling=format)
        return json.loads(reply.content) if format == "json" else reply.content
