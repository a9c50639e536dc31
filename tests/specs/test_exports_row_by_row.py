"""Every row of an export is an offer or is left out for a reason, and both are counted."""

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from capplan.specs import load_gpus
from capplan.specs.price_import import ImportedPrices, import_quotes
from tests.seen import at_least

EXPORTS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("exports").joinpath("exports.yaml").read_text())


def read(folder: Path, export: dict[str, Any]) -> ImportedPrices:
    path = folder / export["path"]
    path.parent.mkdir(exist_ok=True)
    path.write_text(export["content"], encoding="utf-8")
    return import_quotes(path, load_gpus(), read_on=date(2026, 11, 20))


@pytest.mark.parametrize("export", EXPORTS, ids=[export["name"] for export in EXPORTS])
def test_every_row_is_read_or_left_out_for_its_reason(tmp_path: Path, export: dict[str, Any]) -> None:
    made = read(tmp_path, export)
    found = [f"{quote.gpu} {quote.term} {quote.price:.8g}" for quote in made.quotes]
    assert sorted(found) == sorted(export["quotes"])
    assert Counter({_reason(left): left.rows for left in made.left_out}) == Counter(export["left_out"])


def _reason(left: Any) -> str:
    return left.reason if left.row is None else f"row {left.row}"


def test_thirty_three_exports_are_read() -> None:
    assert len(at_least(33, EXPORTS)) == len({export["name"] for export in EXPORTS})
