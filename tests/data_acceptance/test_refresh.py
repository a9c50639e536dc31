"""The weekly workflow: fetched prices become price files that are read as built-in ones, and its recipes stand."""

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from capplan.specs import load_gpus
from capplan.specs.fetched import Fetched
from capplan.specs.prices import load_prices
from tests.seen import at_least

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("refresh_prices", ROOT / ".ci" / "refresh_prices.py")
assert _spec is not None
assert _spec.loader is not None
refresh: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(refresh)


def fetched(day: str, per_hour: float) -> Fetched:
    source = {"kind": "secondary", "title": "Catalogue", "url": "https://example.com", "retrieved": day}
    row = {
        "gpu": "l4", "instance": "g2-standard-4", "gpus": 1, "region": "europe-west4", "per_hour": per_hour,
        "source": "source-1", "tier": "published",
    }  # fmt: skip
    tree = {
        "provider": "gcp", "currency": "USD", "date": day, "date_is": "stated", "sources": {"source-1": source},
        "hourly": [{**row, "pricing": "on-demand"}, {**row, "pricing": "spot", "per_hour": 0.2}], "part": "gcp",
    }  # fmt: skip
    return Fetched(source="skypilot", title="Catalogue", moment=datetime(2026, 11, 24, tzinfo=UTC), files=(tree,))


def test_fetched_prices_become_price_files_and_replace_their_own_older_ones(tmp_path: Path, monkeypatch: Any) -> None:
    own = tmp_path / "gcp-2026-08-03.yaml"
    own.write_text("a file that a person wrote")
    assert refresh.write(tmp_path, refresh.files_of([fetched("2026-11-17", 0.7)])) == []
    removed = refresh.write(tmp_path, refresh.files_of([fetched("2026-11-24", 0.71)]))
    assert [path.name for path in removed] == ["gcp-2026-11-17-fetched-skypilot.yaml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [own.name, "gcp-2026-11-24-fetched-skypilot.yaml"]
    own.unlink()
    monkeypatch.setenv("CAPPLAN_PRICES", str(tmp_path))
    [price] = load_prices(load_gpus()).hourly
    assert (price.provider, price.gpu, price.usd_per_machine_hour, str(price.date)) == ("gcp", "l4", 0.71, "2026-11-24")


def test_the_workflow_runs_every_week_and_names_commands_and_scripts_that_there_are() -> None:
    text = (ROOT / ".github" / "workflows" / "refresh.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["refresh"]["steps"]
    words = "\n".join(step.get("run", "") for step in at_least(6, steps))
    for command in ("prices update", "gpus validate", "llm evidence update", "llm validate --evidence --format md"):
        assert f"capplan {command}" in words
    for script in ("refresh_prices", "stale_facts", "stale_prices"):
        assert script in words
        assert (ROOT / ".ci" / f"{script}.py").is_file()
