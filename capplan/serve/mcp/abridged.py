"""Abridge a document: its verdict stays, lists keep their first entries, and what was left out is named."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_DIGITS = 6
"""Significant digits of a rounded figure."""
_VERDICT_SHARE = 0.7
"""Share of the room that the verdict may take before the rest is looked at."""
_LEAST_PART = 60
"""Characters below which a part says too little to be kept in part."""
_LEAST_ENTRY = 400
"""Such characters of an entry of a list: fewer entries are kept instead."""
_MOST_NAMED = 12


def abridged(
    document: Mapping[str, Any], *, verdict: Sequence[str] = (), room: int
) -> tuple[dict[str, Any], list[str]]:
    """Return a document of at most so many characters of JSON, and what it lacks, such as "fits: 131 of 134".

    Figures are rounded to six digits. The fields of the verdict come first; of others, and inside of each part, room is
    given to the shortest first.
    """
    plain: dict[str, Any] = _rounded(document)
    left_out: list[str] = []
    if size_of(plain) <= room:
        return plain, left_out
    first = {name: plain[name] for name in verdict if name in plain}
    kept = _kept_fields(first, round(room * _VERDICT_SHARE), "", left_out) if first else {}
    rest = {name: value for name, value in plain.items() if name not in first}
    kept |= _kept_fields(rest, room - size_of(kept), "", left_out)
    more = len(left_out) - _MOST_NAMED
    return kept, [*left_out[:_MOST_NAMED], f"and {more} more"] if more > 0 else left_out


def size_of(value: Any) -> int:
    """Return the characters of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def _kept(value: Any, room: int, path: str, left_out: list[str]) -> Any:
    if size_of(value) <= room:
        return value
    if isinstance(value, str):
        left_out.append(f"{path}: its end")
        return value[: room - 4] + "…"
    if isinstance(value, Mapping):
        return _kept_fields(value, room, path, left_out)
    return _kept_entries(value, room, path, left_out)


def _kept_fields(fields: Mapping[str, Any], room: int, path: str, left_out: list[str]) -> dict[str, Any]:
    """Return the fields that there is room for, in their order: single values first, then parts, the shortest first."""
    left, kept = room - 2, {}
    sizes = {name: size_of({name: value}) for name, value in fields.items()}
    parts = sorted((name for name in fields if _is_part(fields[name])), key=lambda name: sizes[name])
    for name in fields:
        if name not in parts and sizes[name] <= left:
            kept[name] = fields[name]
            left -= sizes[name]
    for place, name in enumerate(parts):
        beside = size_of({name: 0}) - 1
        share = left // (len(parts) - place) - beside
        if sizes[name] <= share + beside or share >= _LEAST_PART:
            part = _kept(fields[name], share, f"{path}.{name}" if path else name, left_out)
            if part or not fields[name]:
                kept[name] = part
                left -= beside + size_of(part)
    left_out += [f"{path}.{name}" if path else name for name in fields if name not in kept]
    return {name: kept[name] for name in fields if name in kept}


def _is_part(value: Any) -> bool:
    """Return True if a value can be kept in part."""
    return isinstance(value, Mapping | list) or (isinstance(value, str) and len(value) > _LEAST_PART)


def _kept_entries(entries: Sequence[Any], room: int, path: str, left_out: list[str]) -> list[Any]:
    """Return the first entries: as many as there is room for if each is cut to what still says something."""
    least = min(_LEAST_ENTRY, max(map(size_of, entries)) + 2)
    count = min(len(entries), (room - 2) // least)
    if count == 0:
        return []
    if count < len(entries):
        left_out.append(f"{path}: {len(entries) - count:,} of {len(entries):,}")
    # what the entries lack is much the same in each, and is named once
    inside: list[str] = []
    kept = [_kept(entry, (room - 2) // count - 2, f"{path}[]", inside) for entry in entries[:count]]
    left_out += dict.fromkeys(inside)
    return kept
