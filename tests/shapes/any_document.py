"""Hypothesis strategies that draw any value of a document's type."""

import datetime
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as types

from capplan.core.economics.constraints import Assumption
from capplan.core.numbers import Interval

NUMBERS = st.floats(min_value=-1e300, max_value=1e300)
TEXTS = st.text(max_size=12)


def ordered(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, float]]:
    """Draw numbers that rise in the order of their names."""
    return st.lists(NUMBERS, min_size=len(names), max_size=len(names)).map(
        lambda drawn: dict(zip(names, sorted(drawn), strict=True))
    )


ASSUMPTIONS = st.builds(
    lambda ends, texts: Assumption(**ends, **texts),
    ordered(("low", "value", "high")),
    st.fixed_dictionaries(dict.fromkeys(("key", "label", "unit", "basis", "source"), TEXTS)),
)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type that msgspec knows."""
    return _strategy(types.type_info(kind))


def _strategy(info: types.Type) -> st.SearchStrategy[Any]:
    match info:
        case types.Metadata():
            return _strategy(info.type)
        case types.DataclassType(cls=cls) if cls is Interval:
            return ordered(("low", "expected", "high")).map(lambda ends: Interval(**ends))
        case types.DataclassType(cls=cls) if cls is Assumption:
            return ASSUMPTIONS
        case types.StructType(cls=cls, fields=fields) | types.DataclassType(cls=cls, fields=fields):
            return st.fixed_dictionaries({each.name: _field(each) for each in fields}).map(lambda drawn: cls(**drawn))
        case types.UnionType(types=members):
            return st.one_of([_strategy(each) for each in members if not isinstance(each, types.CustomType)])
        case types.VarTupleType(item_type=item):
            return st.lists(_strategy(item), min_size=info.min_length or 0, max_size=2).map(tuple)
        case types.TupleType(item_types=items):
            return st.tuples(*map(_strategy, items))
        case types.DictType(key_type=key, value_type=value):
            return st.dictionaries(_strategy(key), _strategy(value), max_size=3)
        case _:
            return _scalar(info)


def _scalar(info: types.Type) -> st.SearchStrategy[Any]:
    match info:
        case types.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case types.LiteralType(values=values):
            return st.sampled_from(values)
        case types.IntType(ge=low):
            return st.integers(min_value=-(2**62) if low is None else low, max_value=2**62)
        case types.FloatType(gt=above, ge=low, le=high):
            return st.floats(
                min_value=next((each for each in (above, low) if each is not None), -1e300),
                max_value=1e300 if high is None else high,
                exclude_min=above is not None,
            )
        case types.StrType(pattern=pattern):
            return TEXTS if pattern is None else st.from_regex(pattern, fullmatch=True).map(lambda text: text.strip())
        case types.BoolType():
            return st.booleans()
        case types.NoneType():
            return st.none()
        case types.DateType():
            return st.dates(min_value=datetime.date(2000, 1, 1))
    raise AssertionError(f"no strategy for {info}")


def _field(field: types.Field) -> st.SearchStrategy[Any]:
    drawn = _strategy(field.type)
    return st.one_of(st.just(msgspec.UNSET), drawn) if field.default is msgspec.UNSET else drawn
