"""Recognise the kind of answer that a file holds, so that only an older answer of the same kind is overwritten.

A signature is read from the content alone: the format named in a JSON document, its keys, the headings of a table,
the first line of an SVG. What cannot be recognised has an empty signature and equals nothing.
"""

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

_LARGEST_BYTES = 256 * 2**20
_LONGER_TEXTS = ("table", "<svg", "<!doctype html")
_TOP_KEY = re.compile(r"^([A-Za-z_][\w-]*):", re.MULTILINE)
_TEXT_RULE = re.compile(r"-{2,}(?: +-{1,})*")
_MARKDOWN_RULE = re.compile(r"\|(?: ?:?-{3,}:? ?\|)+")
_PICTURE = re.compile(r"<(?:svg|!doctype html)\b", re.IGNORECASE)
_CLASSES = re.compile(r"\bclass=[\"']([^\"']*)[\"']")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The kind of an answer: its form, the subject that it must share, and its keys or headings."""

    form: str
    subject: str = ""
    parts: frozenset[str] = frozenset()


def is_same_kind(older: Signature, newer: Signature) -> bool:
    """Return True if two answers have the same form and subject, and parts in common.

    Keys and columns come and go with options, so one set must hold the other. Of the tables and marks of a longer
    text, one in common is enough.
    """
    if (older.form, older.subject) != (newer.form, newer.subject) or not older.parts or not newer.parts:
        return False
    if older.form in _LONGER_TEXTS:
        return bool(older.parts & newer.parts)
    return older.parts <= newer.parts or newer.parts <= older.parts


def read_signature(content: bytes) -> Signature:
    """Recognise an answer by its content, compressed or not."""
    plain = _decompressed(content) if content[:2] == b"\x1f\x8b" else content
    try:
        text = plain.decode()
    except UnicodeDecodeError:
        return Signature(form="binary")
    for read in (_json, _picture, _tables, _comma_separated, _yaml):
        if (found := read(text)) is not None:
            return found
    return Signature(form="text")


def _decompressed(content: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(content, _LARGEST_BYTES)
    except zlib.error:
        return b"\xff"


def _json(text: str) -> Signature | None:
    if text[:1] not in ("{", "["):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return None
    return Signature(form="json", subject=_json_subject(first), parts=frozenset(first))


def _json_subject(document: Mapping[str, Any]) -> str:
    """Return the model that a trace is of, without its options; other documents are not bound to their model."""
    if document.get("format") != "capplan-trace":
        return ""
    return str(document.get("target")).partition(" --")[0]


def _picture(text: str) -> Signature | None:
    """Recognise a chart by the classes of its marks."""
    if not (found := _PICTURE.match(text.lstrip()[:20])):
        return None
    classes = [name for names in _CLASSES.findall(text) for name in names.split()]
    return Signature(form=found[0].lower(), parts=frozenset(classes))


def _tables(text: str) -> Signature | None:
    lines = text.splitlines()
    headings = [
        " ".join(above.split())
        for above, rule in pairwise(lines)
        if _TEXT_RULE.fullmatch(rule) or _MARKDOWN_RULE.fullmatch(rule)
    ]
    return Signature(form="table", parts=frozenset(headings)) if headings else None


def _comma_separated(text: str) -> Signature | None:
    names = text.partition("\n")[0].split(",")
    if len(names) < 2 or not all(names):
        return None
    return Signature(form="csv", parts=frozenset(names))


def _yaml(text: str) -> Signature | None:
    keys = _TOP_KEY.findall(text)
    return Signature(form="yaml", parts=frozenset(keys)) if keys else None
