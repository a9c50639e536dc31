"""What a load file of reports admits: its keys are refused as the options of `report` are."""

from pathlib import Path

import pytest

from capplan.core.gpus.prices import Term
from capplan.errors import CapplanError, SpecError
from capplan.specs.load import LoadFile, read_load_file
from capplan.verbs.constraints import _OPTIONS_OF_KEYS, ConstraintFields, admitting_as_stated
from capplan.verbs.statement.file_keys import fields_by_key
from capplan.verbs.statement.options import Door, fields_of

SERVICE = "service: {peak: 100/s, latency: 50 ms}\n"


def read(tmp_path: Path, text: str) -> LoadFile:
    path = tmp_path / "load.yaml"
    path.write_text(SERVICE + text)
    return admitting_as_stated(read_load_file(path), shown="load.yaml")


def test_keys_state_what_options_state(tmp_path: Path) -> None:
    text = "terms: spot\nallow: {gpus: [l4], regions: eu}\ndeny: {segments: [consumer]}\nbudget: {per_year: 120k}\n"
    load = read(
        tmp_path, f"{text}site: {{power: 20 kW}}\nany_vendor: true\ncertainty: 75 %\nmax_price_age: 48 h\n"
    ).loads[0]
    admitted = load.demand.constraints
    assert (admitted.terms, admitted.any_vendor, admitted.certainty_fraction) == ({Term.SPOT}, True, 0.75)
    assert (admitted.allow.gpus, admitted.allow.regions, admitted.deny.segments) == ({"l4"}, {"eu"}, {"consumer"})
    # 48 hours are two days
    assert (admitted.max_usd_per_year, admitted.max_power_w, admitted.max_price_age_days) == (120_000, 20_000, 2)
    assert load.demand.load.allow_spot  # which is named


def test_every_option_that_admits_is_a_key() -> None:
    options = fields_by_key(fields_of(ConstraintFields), Door.LOAD)
    assert len(_OPTIONS_OF_KEYS) > 15
    assert set(options) - set(_OPTIONS_OF_KEYS.values()) == {"priced", "max_price"}  # which choose GPUs of one question


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("certainty: 150 %", "load.yaml: certainty: '150 %' is not a share; write 95% or 0.95"),
        ("site: {power: 20}", "load.yaml: site.power: '20' is not a power; write it with its unit, such as 20 kW"),
        ("site: {rack_units: 0}", "load.yaml: site.rack_units: expected a number of at least 1, not 0"),
        ("max_price_age: 2 h", "load.yaml: max_price_age: expected a number of at least 1, not 0.08333333333333333"),
        ("max_price_age: soon", "load.yaml: max_price_age: expected a number of at least 1, not 'soon'"),
        ("any_vendor: maybe", "load.yaml: any_vendor: expected true or false, not 'maybe'"),
        ("allow: {provider: aws}", "load.yaml: allow.provider: unknown key; did you mean allow.providers"),
        ("terms: lease", "load.yaml: terms 'lease' is not a term; use rent, buy, both"),
        ("budget: much", "load.yaml: budget: must be keys with values, not 'much'"),
    ],
)
def test_a_key_is_refused_as_its_option_is(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(CapplanError) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(sentence)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        read(tmp_path, "certainty: 0\nany_vendor: 3\n")
    assert len(str(refused.value).splitlines()) == 2
