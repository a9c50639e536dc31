"""`capplan compare`: models, number formats and frameworks side by side."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import capplan
from capplan.core.plan.comparison import Comparison
from capplan.report.schemas import schema_of
from tests.cli.conftest import NET, Run
from tests.seen import at_least

INPUT = ("--input", "x=3x64x64")


def rows(text: str) -> list[dict[str, Any]]:
    document = json.loads(text)
    schema = schema_of("compare")
    jsonschema.validate(document, schema)
    found: list[dict[str, Any]] = document["rows"]
    return found


@pytest.mark.slow
def test_every_model_format_and_framework_has_a_row(run: Run) -> None:
    words = ("compare", NET, NET, *INPUT, "--gpu", "l4,t4", "--batch", "1,32", "--json")
    found = rows(run(*words).stdout)
    ways = {(row["model"], row["precision"], row["framework"], row["gpu"], row["batch"]) for row in found}
    assert len(found) == len(ways) == 2 * 2 * 2 * 2 * 2
    assert {row["precision"] for row in found} == {"fp32", "fp16"}
    assert {row["framework"] for row in found} == {"eager", "compile"}


def test_rows_say_what_a_plan_says(run: Run, net_trace: Path) -> None:
    (row,) = rows(
        run(
            "compare", net_trace, "--gpu", "t4", "--batch", "8", "--precision", "fp32", "--framework", "eager", "--json"
        ).stdout
    )
    (fit,) = json.loads(run("plan", net_trace, "--gpu", "t4", "--batch", "8", "--json").stdout)["fits"]
    assert row["latency_s"] == fit["latency_s"]
    assert row["memory"]["total_bytes"] == fit["memory"]["total_bytes"]
    assert row["usd_per_million_samples"] == fit["usd_per_million_samples"]
    assert row["gain"] == 1


def test_the_lowest_cost_stands_in_the_currency_asked_for(run: Run, net_trace: Path) -> None:
    words = ("compare", net_trace, "--gpu", "l4", "--batch", "1,8", "--currency", "EUR=1.25")
    document = json.loads(run(*words, "--json").stdout)
    # The cheapest row's cost at a euro of 1.25 USD; a rate of one's own has no day.
    cheapest = min(row["usd_per_million_samples"] for row in document["rows"] if row["latency_s"])
    assert document["local"]["amount"] == pytest.approx(cheapest / 1.25)
    assert document["local"]["rate_day"] is None
    assert "In EUR" in run(*words).stdout
    assert "In EUR" not in run(*words[:-2]).stdout


@pytest.mark.slow
def test_gains_are_against_the_first_row_of_the_same_gpu_and_batch(run: Run) -> None:
    found = rows(run("compare", NET, *INPUT, "--gpu", "l4,t4", "--batch", "1,32", "--json").stdout)
    for row in at_least(8, found):
        first = next(each for each in found if (each["gpu"], each["batch"]) == (row["gpu"], row["batch"]))
        speedup = row["throughput_per_s"]["expected"] / first["throughput_per_s"]["expected"]
        assert row["gain"] == pytest.approx(speedup)


def test_what_a_trace_lacks_becomes_a_reason(run: Run, net_trace: Path) -> None:
    result = run("compare", net_trace, "--gpu", "t4", "--batch", "8", "--framework", "eager", "--json")
    assert result.exit_code == 0, result.stderr
    first, second = rows(result.stdout)
    assert first["status"] == "fits"
    assert (second["precision"], second["status"], second["latency_s"]) == ("fp16", "failed", None)
    assert "capplan trace" in second["reason"]


def test_a_model_that_fits_nowhere_is_exit_1(run: Run, net_trace: Path) -> None:
    words = ("compare", net_trace, "--gpu", "t4", "--batch", "1000000", "--precision", "fp32", "--framework", "eager")
    result = run(*words)
    assert result.exit_code == 1
    assert "memory: needs" in result.stdout


@pytest.mark.nightly
@pytest.mark.slow
def test_without_a_gpu_those_that_a_plan_recommends_are_taken(run: Run, net_trace: Path) -> None:
    words = (net_trace, "--batch", "8")
    found = rows(run("compare", *words, "--precision", "fp32", "--framework", "eager", "--json").stdout)
    recommended = json.loads(run("plan", *words, "--json").stdout)["recommended"]
    assert {row["gpu"] for row in at_least(1, found)} == {each["gpu"] for each in recommended.values()}


def test_tables_are_no_wider_than_100_columns_and_csv_holds_everything(run: Run) -> None:
    words = ("compare", NET, *INPUT, "--gpu", "l4", "--batch", "32")
    table = run(*words).stdout
    assert max(map(len, table.splitlines())) <= 100
    for word in ("precision", "framework", "latency", "memory", "speed from", "Fastest", "Smallest"):
        assert word in table
    sheet = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout)))
    assert [row["framework"] for row in sheet] == ["eager", "compile", "eager", "compile"]
    assert all(float(row["latency_s"]) > 0 for row in sheet)
    assert "| precision |" in run(*words, "--format", "md").stdout


def test_rows_are_sorted_as_asked(run: Run) -> None:
    found = rows(run("compare", NET, *INPUT, "--gpu", "l4,t4", "--batch", "32", "--sort", "latency", "--json").stdout)
    times = [row["latency_s"]["expected"] for row in found]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--precision", "fp33"), "unknown precision"),
        (("--framework", "eagre"), "did you mean eager"),
        (("--sort", "speed"), "unknown sort key"),
        (("--gpu", "l44"), "did you mean"),
    ],
)
def test_unknown_words_are_answered_with_the_known_ones(
    run: Run, net_trace: Path, words: tuple[str, ...], said: str
) -> None:
    result = run("compare", net_trace, *words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_python_gives_the_same_rows_as_a_frame(run: Run) -> None:
    pytest.importorskip("pandas")
    made = capplan.compare([NET], inputs=["x=3x64x64"], gpus=["l4"], batches=[32])
    assert isinstance(made, Comparison)
    frame = made.to_frame()
    found = rows(run("compare", NET, *INPUT, "--gpu", "l4", "--batch", "32", "--json").stdout)
    assert list(frame["latency_s"]) == [row["latency_s"]["expected"] for row in found]
    assert str(made).rstrip() == run("compare", NET, *INPUT, "--gpu", "l4", "--batch", "32").stdout.rstrip()
    assert len(repr(made).splitlines()) <= 6
    assert "<pre" in made._repr_html_()


def test_formats_of_engines_are_compared_under_engines_alone(run: Run) -> None:
    words = ["--framework", "eager,tensorrt", "--precision", "fp16,int8", "--gpu", "l4", "--batch", "8", "--json"]
    result = run("compare", NET, *INPUT, *words)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    found = {(row["precision"], row["framework"]) for row in document["rows"]}
    assert found == {("fp16", "eager"), ("fp16", "tensorrt"), ("int8", "tensorrt")}
    assert "int8 needs an engine, and is left out under eager." in document["notes"]
    alone = run("compare", NET, *INPUT, "--framework", "eager", "--precision", "int8", "--gpu", "l4")
    assert alone.exit_code == 2
    assert "add --framework tensorrt" in alone.stderr
