"""What may be recommended: the options of `report` that say so, and the keys of its load file that they are."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.errors import UsageError
from capplan.units import SECONDS, parse_quantity
from capplan.verbs.statement.fields import EVERYWHERE, Name, PriceFields
from capplan.verbs.statement.options import Door, Field, Option, Topic, fields_of
from capplan.verbs.statement.words import AMOUNT, SHARE, WATTS

if TYPE_CHECKING:
    from capplan.core.economics.constraints import Constraints, ReportLoad
    from capplan.specs.load import LoadFile


def _names(*flags: str, what: str, topic: Topic = Topic.OWN, doors: Door = EVERYWHERE) -> Option:
    return Option(help=f"{what}; repeatable.", flags=flags, metavar="NAME", topic=topic, doors=doors)


@dataclass(frozen=True, kw_only=True)
class ConstraintFields(PriceFields):
    """What may be recommended, over what the load file states."""

    terms: Annotated[
        tuple[Name, ...],
        Option(
            is_usual=True,
            help="rent, buy, both, on-demand, spot, reserved-1y or reserved-3y; repeatable; both by default.",
            metavar="TERM",
        ),
    ] = ()  # fmt: skip
    providers: Annotated[
        tuple[Name, ...], _names("--provider", what="Rent or buy from this provider only", topic=Topic.PRICES)
    ] = ()
    regions: Annotated[
        tuple[Name, ...], _names("--region", "--country", what="Rent in this region only", topic=Topic.PRICES)
    ] = ()
    segments: Annotated[
        tuple[Name, ...],
        _names("--segment", what="Consider this segment only, such as consumer (default: data-centre, workstation)"),
    ] = ()
    deny_providers: Annotated[tuple[Name, ...], _names("--deny-provider", what="Never from this provider")] = ()
    deny_regions: Annotated[tuple[Name, ...], _names("--deny-region", what="Never in this region")] = ()
    deny_gpus: Annotated[tuple[Name, ...], _names("--deny-gpu", what="Never this GPU or family")] = ()
    deny_segments: Annotated[tuple[Name, ...], _names("--deny-segment", what="Never this segment")] = ()
    marketplaces: Annotated[
        bool, Option(help="Let offers of third-party hosts compete with vendors' offers.", doors=EVERYWHERE)
    ] = False
    any_vendor: Annotated[
        bool,
        Option(help="Let GPUs that need porting compete where no step was timed on their kind.", doors=EVERYWHERE),
    ] = False
    max_capex_usd: Annotated[
        float | None,
        Option(
            help="Most that may be paid on the first day.", flags=("--max-capex",), metavar="USD", words=AMOUNT,
            doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip
    max_usd_per_year: Annotated[
        float | None,
        Option(
            is_usual=True,
            help="Most that may be paid in any later year.", flags=("--max-cost-per-year",), metavar="USD",
            words=AMOUNT, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip
    max_power_w: Annotated[
        float | None,
        Meta(gt=0.0, le=1e15),
        Option(
            help="Most nameplate power of bought servers, such as 20kW.", flags=("--max-power",), metavar="kW",
            words=WATTS, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip
    max_rack_units: Annotated[
        float | None,
        Meta(ge=1),
        Option(help="Most rack units of bought servers.", metavar="U", doors=EVERYWHERE),
    ] = None
    certainty_fraction: Annotated[
        float | None,
        Option(
            help="Share of scenarios that every fleet is sized for; 90% by default.", flags=("--certainty",),
            metavar="SHARE", words=SHARE, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip
    max_price_age_days: Annotated[
        float | None,
        Meta(ge=1),
        Option(
            help="Prices that are older count as old, and are not recommended without saying so; 180 by default.",
            flags=("--max-price-age",), metavar="DAYS", doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip

    def stated_constraints(self) -> dict[str, Any]:
        """Return the fields of `Constraints` that these fields state, by name."""
        from capplan.core.economics.constraints import Constraints, NameLists
        from capplan.specs.constraints import term_words, terms_of

        terms = terms_of(self.terms)
        if terms is None:
            unknown = next(word for word in self.terms if word not in term_words())
            raise UsageError(f"⟨terms⟩ {unknown!r} is not a term; use {', '.join(term_words())}.")
        names = {place: frozenset(getattr(self, place)) for place in ("providers", "regions", "segments")}
        denied = {name.name: frozenset(getattr(self, f"deny_{name.name}")) for name in fields(NameLists)}
        named = {"terms": terms, "allow": NameLists(**names), "deny": NameLists(**denied)}
        values = {field.name: getattr(self, field.name, None) for field in fields(Constraints)} | named
        return {
            name: value for name, value in values.items() if not (value is None or value is False or value == set())
        }


_OPTIONS_OF_KEYS: Mapping[str, str] = {
    "terms": "terms", "marketplaces": "marketplaces", "any_vendor": "any_vendor", "certainty": "certainty",
    "max_price_age": "max_price_age", "allow.providers": "provider", "allow.regions": "region",
    "allow.segments": "segment", "allow.gpus": "deny_gpu", "deny.providers": "deny_provider",
    "deny.regions": "deny_region", "deny.gpus": "deny_gpu", "deny.segments": "deny_segment",
    "budget.capex": "max_capex", "budget.per_year": "max_cost_per_year", "site.power": "max_power",
    "site.rack_units": "max_rack_units",
}  # fmt: skip
"""The keys of a load file, groups before the point, and their options; GPUs are allowed by names as they are denied."""
_GROUPS = ("allow", "deny", "budget", "site")


def admitted_by(keys: Mapping[str, Any], *, shown: str) -> "Constraints":
    """Return what keys of a load file admit; names are checked where they are resolved."""
    from capplan.app.procurement.constraints import laid_over
    from capplan.core.economics.constraints import Constraints
    from capplan.verbs.statement.file_keys import KeyReader, fields_by_key, named_by_keys

    reader, options = KeyReader(shown, shown), fields_by_key(fields_of(ConstraintFields), Door.LOAD)
    given = {key: value for key, value in keys.items() if key not in _GROUPS}
    for group in _GROUPS:
        given |= reader.group(dict(keys), group)
    known = {key: options[option] for key, option in _OPTIONS_OF_KEYS.items()}
    reader.unknown_keys(given, known, "")
    allowed = reader.field("allow.gpus", options["deny_gpu"], given.pop("allow.gpus", []), door=Door.LOAD)
    written = {key: _as_option(known[key], value) for key, value in given.items() if key in known}
    values = reader.fields(written, known, door=Door.LOAD)
    with named_by_keys(shown, options.values()):
        admitted = laid_over(Constraints(), ConstraintFields(**values).stated_constraints())
    reader.finish({})
    return replace(admitted, allow=replace(admitted.allow, gpus=frozenset(allowed)))


def admitting_as_stated(stated: "LoadFile", *, shown: str) -> "LoadFile":
    """Return a load file whose loads hold what its keys admit."""
    from capplan.specs.constraints import allowing_named_spot

    admitted = admitted_by(stated.admitted, shown=shown)

    def admitting(demand: "ReportLoad") -> "ReportLoad":
        return replace(demand, constraints=admitted, load=allowing_named_spot(demand.load, admitted))

    return replace(stated, loads=tuple(replace(load, demand=admitting(load.demand)) for load in stated.loads))


def _as_option(field: Field, value: Any) -> Any:
    """Return a value as its option takes it: an age in days."""
    if field.name != "max_price_age_days" or not isinstance(value, str):
        return value
    try:
        return parse_quantity(value, SECONDS, what="") / SECONDS["d"]
    except UsageError:
        return value  # which the option refuses
