"""Turn the options of a Python call into the parts of a request; each function takes its options from those left."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from capplan.api.options import ModelOptions

if TYPE_CHECKING:
    from capplan.api.options import ModelLike
    from capplan.app.gpus.choice import GpuRequest
    from capplan.app.gpus.priced import PriceFilters
    from capplan.app.models import ModelSource
    from capplan.app.procurement.constraints import ConstraintRequest
    from capplan.core.batches import Batches
    from capplan.core.plan.types import Limits
    from capplan.core.workload import Workload

Word = TypeVar("Word", bound=StrEnum)
Made: TypeAlias = dict[str, Any]


def take_source(model: "ModelLike", left: Made) -> "ModelSource":
    """Take a model's options from those that are left, and return the model of a request."""
    from capplan.api.sources import find_source

    return find_source(model, **{name: left.pop(name) for name in ModelOptions.__annotations__ if name in left})


def take_sources(models: "ModelLike | Sequence[ModelLike]", left: Made) -> "tuple[ModelSource, ...]":
    """Take the options of models from those that are left, and return the models of a request.

    Raises:
        UsageError: no model is given.
    """
    from capplan.api.sources import find_source
    from capplan.errors import UsageError

    options = {name: left.pop(name) for name in ModelOptions.__annotations__ if name in left}
    named = list(models) if isinstance(models, (list, tuple)) else [models]
    if not named:
        raise UsageError("models is empty: name at least one.")
    return tuple(find_source(each, **options) for each in named)


def take_workload(left: Made) -> "Workload":
    """Take a workload's options from those that are left."""
    from capplan.core.workload import Framework, Layout, Precision, Workload

    version = {"torch_version": left.pop("torch_version")} if left.get("torch_version") else {}
    return Workload(
        precision=choose(Precision, left.pop("precision", "fp32"), "precision"),
        framework=choose(Framework, left.pop("framework", "eager"), "framework"),
        layout=choose(Layout, left.pop("layout", "nchw"), "layout"),
        training=left.pop("training", None),
        **version,
    )


def take_constraints(left: Made) -> "ConstraintRequest":
    """Take what a buyer admits from those options that are left."""
    from capplan.app.procurement.constraints import ConstraintRequest
    from capplan.core.economics.constraints import NameLists
    from capplan.errors import UsageError
    from capplan.specs.constraints import term_words, terms_of

    words = left.pop("terms", ())
    terms = terms_of([words] if isinstance(words, str) else list(words))
    if terms is None:
        raise UsageError(f"terms {words!r}: use {', '.join(term_words())}.")

    def lists(prefix: str) -> NameLists:
        return NameLists(
            providers=frozenset(left.pop(f"{prefix}providers", ())),
            regions=frozenset(left.pop(f"{prefix}regions", ())),
            gpus=frozenset(left.pop(f"{prefix}gpus", ()) if prefix else ()),
            segments=frozenset(left.pop(f"{prefix}segments", ())),
        )

    caps = (
        "max_capex_usd", "max_usd_per_year", "max_power_w", "max_rack_units", "certainty_fraction",
        "max_price_age_days",
    )  # fmt: skip
    return ConstraintRequest(
        terms=terms,
        allow=lists(""),
        deny=lists("deny_"),
        marketplaces=left.pop("marketplaces", False),
        **{name: left.pop(name, None) for name in caps},
    )


def take_gpu_request(left: Made) -> "GpuRequest":
    """Take the options of GPUs from those that are left."""
    from capplan.app.gpus.choice import GpuFilters, GpuRequest
    from capplan.errors import UsageError
    from capplan.specs import Gpus

    overlays, gpus = tuple(map(Path, left.pop("specs", ()))), left.pop("gpus", None)
    with_cpus = left.pop("with_cpus", False)
    filters = GpuFilters(
        where=tuple(left.pop("where", ())),
        vendors=tuple(left.pop("vendors", ())),
        architectures=tuple(left.pop("architectures", ())),
        min_memory=left.pop("min_memory", None),
    )
    if gpus is None or isinstance(gpus, Gpus):
        return GpuRequest(database=gpus, with_cpus=with_cpus, overlays=overlays, filters=filters)
    named = [gpus] if isinstance(gpus, str) else list(gpus)
    if not named:
        raise UsageError("gpus is empty: name at least one GPU, or leave it out for all.")
    return GpuRequest(
        ids=tuple(each for each in named if isinstance(each, str)),
        specs=tuple(each for each in named if not isinstance(each, str)),
        with_cpus=with_cpus,
        overlays=overlays,
        filters=filters,
    )


def take_price_filters(left: Made) -> "PriceFilters":
    """Take the filters of prices from the options that are left."""
    from capplan.app.gpus.priced import PriceFilters

    return PriceFilters(
        providers=tuple(left.pop("providers", ())),
        only_priced=left.pop("priced", False),
        max_usd_per_hour=left.pop("max_usd_per_hour", None),
    )


def take_limits(left: Made) -> "Limits":
    """Take the limits of a plan from the options that are left."""
    from capplan.core.plan.types import Limits
    from capplan.core.workload import DEFAULT_UTILIZATION

    return Limits(
        utilization_fraction=left.pop("utilization_fraction", DEFAULT_UTILIZATION),
        max_latency_s=left.pop("max_latency_s", None),
        min_throughput_per_s=left.pop("min_throughput_per_s", None),
    )


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


def listed_batches(batches: Sequence[int] | str) -> tuple[int, ...]:
    """Return the sizes of batches that must be listed.

    Raises:
        UsageError: they list none.
    """
    from capplan.errors import UsageError

    if not (sizes := read_batches(batches).sizes):
        raise UsageError(f"batches {batches!r} lists none; give sizes, or words such as '1..256'.")
    return sizes


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
