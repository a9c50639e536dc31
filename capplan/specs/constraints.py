"""Read what a buyer admits from a load file: terms, lists of names, budget and site."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from capplan.core.economics.constraints import (
    BOUGHT,
    DEFAULT_CERTAINTY,
    DEFAULT_MAX_PRICE_AGE_DAYS,
    RENTED,
    Constraints,
    NameLists,
)
from capplan.core.gpus.prices import LASTING_TERMS, Term
from capplan.core.gpus.spec import Segment
from capplan.core.serving.load import Load
from capplan.specs.strict_yaml import Tree
from capplan.specs.values import ValueReader
from capplan.units import SECONDS

CONSTRAINT_KEYS = (
    "terms",
    "allow",
    "deny",
    "marketplaces",
    "any_vendor",
    "budget",
    "site",
    "certainty",
    "max_price_age",
)
_LISTS = ("providers", "regions", "gpus", "segments")
_GROUPS = {"rent": RENTED, "buy": BOUGHT, "both": LASTING_TERMS}


def term_words() -> list[str]:
    """Return the words that `terms` takes: rent, buy, both, and every lasting term."""
    return [*_GROUPS, *(term.value for term in Term if term in LASTING_TERMS and term is not Term.BUY)]


def terms_of(words: Sequence[str]) -> frozenset[Term] | None:
    """Return the terms that words name; None where a word is unknown."""
    if any(word not in term_words() for word in words):
        return None
    return frozenset(term for word in words for term in _GROUPS.get(word, {Term(word)} if word not in _GROUPS else ()))


def allowing_named_spot(load: Load, constraints: Constraints) -> Load:
    """Allow spot for a load whose terms name it, alone or in a list that does not hold every rented term."""
    named = Term.SPOT in constraints.terms and not constraints.terms >= RENTED
    return replace(load, allow_spot=True) if named else load


def read_constraints(reader: ValueReader, tree: Tree) -> Constraints:
    """Read the parts of a load file that state what the buyer admits.

    Args:
        reader: Where problems are gathered.
        tree: The whole file; sections that are absent admit everything.
    """
    budget, site = (reader.mapping(tree, name) for name in ("budget", "site"))
    reader.unknown_keys(budget, ["capex", "per_year"], "budget.")
    reader.unknown_keys(site, ["power", "rack_units"], "site.")
    for name in ("marketplaces", "any_vendor"):
        if not isinstance(tree.get(name, False), bool):
            reader.refuse(name, f"must be true or false, not {tree[name]!r}")
    age_s = reader.duration("max_price_age", tree["max_price_age"]) if "max_price_age" in tree else None
    return Constraints(
        terms=_terms(reader, tree.get("terms", "both")),
        allow=_lists(reader, tree, "allow"),
        deny=_lists(reader, tree, "deny"),
        marketplaces=tree.get("marketplaces") is True,
        any_vendor=tree.get("any_vendor") is True,
        max_capex_usd=_cap(budget, "budget", "capex", reader.amount),
        max_usd_per_year=_cap(budget, "budget", "per_year", reader.amount),
        max_power_w=_cap(site, "site", "power", reader.watts),
        max_rack_units=_cap(site, "site", "rack_units", reader.count),
        certainty_fraction=read_certainty(reader, tree.get("certainty", DEFAULT_CERTAINTY)) or DEFAULT_CERTAINTY,
        max_price_age_days=DEFAULT_MAX_PRICE_AGE_DAYS if age_s is None else age_s / SECONDS["d"],
    )


def read_certainty(reader: ValueReader, given: object) -> float | None:
    """Read the share of scenarios that the second fleet is to carry, such as "95 %"; None where it is none."""
    share = reader.fraction("certainty", given)
    if share is not None and not 0 < share < 1:
        reader.refuse("certainty", f"must lie between 0 and 1 or 0 and 100 %, not {given!r}")
        return None
    return share


def _cap(section: Tree, name: str, key: str, read: Callable[[str, object], float | None]) -> float | None:
    return read(f"{name}.{key}", section[key]) if key in section else None


def _terms(reader: ValueReader, given: object) -> frozenset[Term]:
    words = [given] if isinstance(given, str) else given
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        reader.refuse("terms", f"must be {', '.join(term_words())}, or a list of these, not {given!r}")
        return LASTING_TERMS
    terms = terms_of(words)
    if terms is None:
        unknown = next(word for word in words if word not in term_words())
        reader.refuse("terms", f"{unknown!r} is not a term; use {', '.join(term_words())}")
        return LASTING_TERMS
    return terms


def _lists(reader: ValueReader, tree: Tree, name: str) -> NameLists:
    section = reader.mapping(tree, name)
    reader.unknown_keys(section, list(_LISTS), f"{name}.")
    read = {key: _names(reader, f"{name}.{key}", section[key]) for key in _LISTS if key in section}
    for segment in sorted(read.get("segments", ())):
        if segment not in list(Segment):
            reader.refuse(f"{name}.segments", f"{segment!r} is not a segment; use {', '.join(Segment)}")
    return NameLists(**read)


def _names(reader: ValueReader, where: str, given: object) -> frozenset[str]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        reader.refuse(where, f"must be a name or a list of names, not {given!r}")
        return frozenset()
    return frozenset(names)
