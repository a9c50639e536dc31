"""The words in which a buyer admits terms, and what naming spot among them admits."""

from collections.abc import Sequence
from dataclasses import replace

from capplan.core.economics.constraints import BOUGHT, RENTED, Constraints
from capplan.core.gpus.prices import LASTING_TERMS, Term
from capplan.core.serving.load import Load

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
