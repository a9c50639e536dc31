"""The file of the laws of all GPUs: what is read is what was written, and what is wrong is refused."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.rate_laws import GUESSED_LAWS, QuantisedLaws, StreamingCost
from capplan.errors import SpecError
from capplan.specs.rate_laws import (
    SECTIONS,
    LawsOrigin,
    dump_rate_laws,
    load_origins,
    load_rate_laws,
    load_software_support,
    replace_sections,
)

ORIGIN = LawsOrigin(sections=SECTIONS, made=date(2026, 11, 22), command="by hand", data="none")
LAWS = replace(
    GUESSED_LAWS,
    issue_share={"attention": 0.5},
    streaming=StreamingCost(in_half=0.025, in_single=0.0125, typical_demand=4.5, most_demand=16.0),
    hosts=replace(GUESSED_LAWS.hosts, reference_year=2020.5),
    quantised=QuantisedLaws(slowdown={"fp8_block": 1.44}, half_width={"fp8_block": 0.48}),
    software=load_software_support(),  # of a file of its own, whatever file holds the laws
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rates.yaml"
    path.write_text(dump_rate_laws(LAWS, (ORIGIN,)))
    return path


def test_what_is_read_is_what_was_written(file: Path) -> None:
    assert load_rate_laws(file) == LAWS
    assert load_origins(file) == (ORIGIN,)


def test_a_command_replaces_its_sections_and_their_origin_alone(file: Path) -> None:
    given = tuple(each for each in SECTIONS if each != "quantised")
    file.write_text(dump_rate_laws(LAWS, (replace(ORIGIN, sections=given), replace(ORIGIN, sections=("quantised",)))))
    changed = replace(LAWS, quantised=QuantisedLaws(slowdown={"fp8_block": 1.5}, half_width={"fp8_block": 0.3}))
    replace_sections(file, changed, LawsOrigin(sections=("quantised",), made=date(2027, 1, 2), command="b", data="c"))
    assert load_rate_laws(file) == changed
    assert [(each.command, each.sections) for each in load_origins(file)] == [("by hand", given), ("b", ("quantised",))]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("in_half: 0.025", "in_half: -0.1", "streaming.in_half"),
        ("in_half: 0.025", "in_half: much", "streaming.in_half"),
        ("issue_share: {attention: 0.5}", "issue_share: {atention: 0.5}", "issue_share.atention"),
        ("issue_share: {attention: 0.5}", "issue_share: {attention: 1.5}", "issue_share.attention"),
        ("streaming: {in_half: 0.025, ", "streaming: {", "streaming.in_half"),
        ("serial_step_s:", "serial_step:", "serial_step"),
        ("command: by hand\n  ", "", "origins.0.command"),
        ("schema_version: 1", "schema_version: 2", "schema_version 1"),
    ],
)
def test_what_is_wrong_is_named(file: Path, old: str, new: str, named: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(SpecError, match=named.replace(".", r"\.")):
        load_rate_laws(file)


def test_every_section_has_one_origin(file: Path) -> None:
    file.write_text(dump_rate_laws(LAWS, (replace(ORIGIN, sections=SECTIONS[1:]),)))
    with pytest.raises(SpecError, match=f"name the section {SECTIONS[0]} 0 times"):
        load_rate_laws(file)
