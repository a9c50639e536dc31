"""A document that is cut short keeps its verdict, and says what it lacks."""

import json

from hypothesis import given
from hypothesis import strategies as st

from capplan.serve.mcp.abridged import abridged, size_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=12), inner, max_size=12),
    max_leaves=30,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=12), VALUES, max_size=12), st.integers(200, 4000))
def test_a_document_of_any_form_keeps_to_its_room_and_holds_nothing_else(document, room):
    short, left_out = abridged(document, verdict=sorted(document)[:2], room=room)
    assert size_of(short) <= room
    assert set(short) <= set(document)
    assert left_out or set(short) == set(document)


def test_a_short_document_stays_whole_with_rounded_figures():
    assert abridged({"a": 1.23456789, "b": [1, None, "x"]}, room=100) == ({"a": 1.23457, "b": [1, None, "x"]}, [])


def test_the_verdict_stays_where_a_long_list_does_not():
    document = {
        "fits": [{"gpu": f"g{n}", "words": "x" * 90} for n in range(99)],
        "best": {"gpu": "l4", "why": "w" * 80},
    }
    short, left_out = abridged(document, verdict=("best",), room=400)
    assert short["best"] == document["best"]
    assert len(short.get("fits", [])) < 4
    assert any(line.startswith("fits") for line in left_out)


def test_entries_of_a_list_are_the_first_ones_and_what_is_missing_is_counted():
    short, left_out = abridged({"rows": list(range(1000))}, room=300)
    assert short["rows"] == list(range(len(short["rows"])))
    assert left_out == [f"rows: {1000 - len(short['rows'])} of 1,000"]
    assert len(json.dumps(short)) > 150, "the room is used"
