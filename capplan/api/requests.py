"""Turn the options of a Python call into the parts of a request; each function takes its options from those left."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from capplan.api.options import ModelOptions

if TYPE_CHECKING:
    from capplan.api.options import ModelLike
    from capplan.app.models import ModelSource
    from capplan.core.batches import Batches

Word = TypeVar("Word", bound=StrEnum)
Made: TypeAlias = dict[str, Any]


def take_source(model: "ModelLike", left: Made) -> "ModelSource":
    """Take a model's options from those that are left, and return the model of a request."""
    from capplan.api.sources import find_source

    return find_source(model, **{name: left.pop(name) for name in ModelOptions.__annotations__ if name in left})


def choose(words: type[Word], value: str, kind: str) -> Word:
    """Return the member of an enumeration that a word names."""
    from capplan.core.workload import known_words
    from capplan.errors import UnknownNameError

    known = [each.value for each in words]
    if value not in known:
        raise UnknownNameError(kind, value, known, hint=known_words(words, value))
    return words(value)


def read_batches(batches: Sequence[int] | str) -> "Batches":
    """Return batches given as sizes, or in the words of the command line.

    Raises:
        UsageError: the words break their grammar.
    """
    from capplan.core.batches import BatchChoice, Batches, parse_batches

    if isinstance(batches, str):
        return parse_batches(batches)
    return Batches(choice=BatchChoice.LISTED, sizes=tuple(batches))


def take_rules(left: Made) -> Any:
    """Take the rules of timing from the options that are left."""
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.timing import StopRule, WarmUpRule

    return Rules(
        warm_up=WarmUpRule(runs=left.pop("warm_up_runs", None)),
        stop=StopRule(repetitions=left.pop("repetitions", None), budget_s=left.pop("budget_s", None)),
        flush_l2=left.pop("flush_l2", False),
        autotune=left.pop("autotune", False),
    )


def refuse_unknown(verb: str, left: Made) -> None:
    """Refuse options that nothing took, as Python does."""
    if left:
        raise TypeError(f"{verb}() got an unexpected keyword argument {next(iter(left))!r}")
