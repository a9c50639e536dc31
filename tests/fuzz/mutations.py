"""Strategies that bend valid files: wrong values in the tree of a document, and damaged bytes."""

import copy
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import yaml
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

CASES = int(os.environ.get("CAPPLAN_FUZZ_CASES", "30"))
"""Cases of each test; `nox -s nightly` tries 1,000, `nox -s fuzz` 20,000."""

many = settings(
    max_examples=CASES,
    derandomize=CASES <= 300,  # CI repeats the same cases; a longer search makes new ones
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)

few = settings(many, max_examples=max(8, CASES // 12))
"""For whole commands, which take some tenths of a second each."""

NUMBERS = [
    0, -1, 1, 2, 3, 7, -(2**31), 2**31, 2**40, 2**53 + 1, 2**62, 2**63, 2**64, 10**30, 0.5, -0.5, 1e-300, 1e300, 5e-324,
    float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
TEXTS = [
    "", " ", "x", "nan", "inf", "1e400", "-1", "0", "l4", "float33", "resnet50", "../../etc/passwd", "a" * 300, "é",
    "\x1b[31m", "\x00", "\ud800", "\u202e", "{{7*7}}", "=1+1", "<script>", "%s%n", "'; --", "N", "os:system",
    "capplan.errors:UsageError", "2026-02-30", "5 parsecs", "1 GiB",
]  # fmt: skip
OTHERS: list[Any] = [None, True, False, [], {}, [[]], [0], [0, 0], {"a": 1}, [None], [-1, -1, -1]]

values = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.sampled_from(OTHERS).map(copy.deepcopy),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the paths of all members of a tree of dictionaries and lists, the root left out."""
    keys: Any = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(tree[key], (*path, key))


OPERATIONS = st.sampled_from(["replace", "replace", "replace", "drop", "repeat", "swap"])


def bent(document: Any) -> st.SearchStrategy[Any]:
    """Draw copies of a document with one to three members replaced, dropped, repeated or put elsewhere.

    The members are listed once for a strategy, and a draw copies only what lies on the way to a change: the tree of a
    trace has some 10,000 members, and listing and copying them all took most of a case. Keep the strategy of a large
    document.
    """
    known = list(places(document))
    chosen = st.integers(0, max(0, len(known) - 1))

    @st.composite
    def draws(draw: st.DrawFn) -> Any:
        made = copy.copy(document)
        for _ in range(draw(st.integers(1, 3)) if known else 0):
            *path, key = known[draw(chosen)]
            operation = draw(OPERATIONS)
            with suppress(LookupError, TypeError):  # an earlier change took this member away
                part = made
                for step in path:
                    part[step] = part = copy.copy(part[step])
                part[key]  # what was dropped stays away: it would come back as the last of its keys
                if operation == "drop":
                    del part[key]
                elif operation == "repeat" and isinstance(part, list):
                    part.insert(key, copy.deepcopy(part[key]))
                elif operation == "swap" and isinstance(part, list):
                    other = draw(st.integers(0, len(part) - 1))
                    part[key], part[other] = part[other], part[key]
                else:
                    part[key] = draw(values)
        return made

    return draws()


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a copy of some bytes with bits flipped, a piece cut out or put in, or the end missing."""
    made = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        if not made:
            break
        at = draw(st.integers(0, len(made) - 1))
        operation = draw(st.sampled_from(["flip", "flip", "cut", "end", "put"]))
        if operation == "flip":
            made[at] ^= 1 << draw(st.integers(0, 7))
        elif operation == "cut":
            del made[at : at + draw(st.integers(1, 40))]
        elif operation == "end":
            del made[at:]
        else:
            made[at:at] = draw(
                st.sampled_from([b"[", b"{", b'"', b"\x00", b"\xff", b"-", b"1e999", b": ", b"\n", b"&a"])
            )
    return bytes(made)


def as_json(document: Any) -> bytes:
    """Write a document as Python does, with NaN and half characters where it holds them."""
    return json.dumps(document).encode()


def as_yaml(document: Any) -> bytes:
    """Write a document as YAML in ASCII: with libyaml, which is ten times as fast, but knows no half characters."""
    try:
        return yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=False).encode()
    except UnicodeEncodeError:
        return yaml.safe_dump(document, allow_unicode=False).encode()
