"""Text that a terminal would obey stands in answers as its code."""

import json
import unicodedata
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from capplan.printable import printable, printable_fields, printable_line


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = printable(text)
    # Unicode's own classes: Cc are control characters, Cs half characters; tab and line feed may stay.
    assert not [each for each in shown if unicodedata.category(each) in ("Cc", "Cs") and each not in "\t\n"]
    assert not [each for each in printable_line(text) if unicodedata.category(each) in ("Cc", "Cs")]


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_json_that_was_made_printable_reads_back_the_same(text: str) -> None:
    document = json.dumps({"name": text}, ensure_ascii=False)
    assert json.loads(printable(document)) == {"name": text}


def test_escapes_are_spelled_as_json_spells_them() -> None:
    assert printable("a\x1b[31m\tb\n\x9b2J\u202e") == "a\\u001b[31m\tb\n\\u009b2J\\u202e"
    assert printable_line("a\tb\nc") == "a\\u0009b\\u000ac"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    names: tuple[str, ...]
    size: float = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    title: str
    parts: tuple[Inner, ...]
    words: dict[str, str]


def test_every_text_of_a_value_is_made_printable_and_what_is_clean_is_not_copied() -> None:
    clean = Inner(names=("a", "b"))
    made = printable_fields(Outer(title="\x1b", parts=(clean, Inner(names=("\x07",))), words={"k\x00": "v\x7f"}))
    assert made == Outer(title="\\u001b", parts=(clean, Inner(names=("\\u0007",))), words={"k\\u0000": "v\\u007f"})
    assert made.parts[0] is clean
