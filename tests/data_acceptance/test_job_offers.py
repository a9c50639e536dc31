"""Jobs and trainings as they run: start-up, host and minimum charge are paid, and no region hides another's price."""

from pathlib import Path

import pytest

import capplan
from capplan.report.procurement.types import ModelReport

EXAMPLES = Path(__file__).parents[2] / "examples"
BIG = ["aws", "gcp"]
near = pytest.approx


def job(folder: Path, *, samples: str, spot: bool = True, more: str = "", assumed: str = "") -> ModelReport:
    load = folder / "job.load.yaml"
    terms = "terms: [spot, on-demand]\n" if spot else ""
    load.write_text(
        f"job: {{samples: {samples}, deadline: 6 h, runs_per_year: 365{more}}}\n{terms}"
        + (f"assumptions: {{{assumed}}}\n" if assumed else "")
    )
    (model,) = capplan.make_report(
        str(EXAMPLES / "resnet50.plan.json"), load=load, providers=BIG, batches=[1, 2, 4, 8, 16, 32, 64]
    ).models
    return model


def yearly(model: ModelReport, key: str) -> float:
    row = model.option(key)
    assert row is not None
    assert row.cost_usd_per_year is not None
    return row.cost_usd_per_year


@pytest.mark.slow
def test_the_training_example_names_the_a10g_of_virginia() -> None:
    """An edition hid the price of us-east-1 behind Mumbai's and named 4 x T4 for 943 USD instead.

    Worked by hand then: 2 x A10G, 33.5 h, 2 x 33.5 h x 12 runs x 1.006 USD = 809 USD a year.
    """
    report = capplan.make_report(
        str(EXAMPLES / "resnet50-training.plan.json"),
        load=EXAMPLES / "training.load.yaml", providers=BIG, batches=[32, 64, 128, 256],
    )  # fmt: skip
    (model,) = report.models
    choice = model.option("a10g/on-demand")  # a fleet of half as many GPUs within 500 USD a year is taken instead
    assert choice is not None
    assert (choice.instance, choice.region) == ("g5.xlarge", "us-east-1")
    assert choice.gpus == 2
    assert choice.price_usd == near(1.006)
    assert choice.cost_usd_per_year == near(809, rel=0.05)
    assert choice.finish_s is not None
    assert choice.cost_usd_per_year == near(2 * choice.finish_s / 3600 * 12 * 1.006)


@pytest.mark.slow
def test_a_run_of_a_minute_pays_for_the_minutes_until_its_machines_work(tmp_path: Path) -> None:
    """Eight H100 need a minute for 4 million images, at 56 USD a year; boot and image take five, and are charged.

    The price then is that of one H100, which starts as long and is not paid eight times. A run is charged from the
    order of its machines to its end, by Amazon and Google for a minute at least.
    """
    ready, cold = job(tmp_path, samples="4M", more=", start_up: 0 s"), job(tmp_path, samples="4M")
    for model, start_s in ((ready, 0), (cold, 300)):
        for row in model.options:
            if row.term in ("spot", "on-demand") and row.price_usd and row.finish_s:
                work_s = 4e6 / row.gpus / row.rate_per_gpu_per_s
                assert row.finish_s == near(start_s + work_s)
                paid_h = row.gpus * 365 * max(60, start_s + work_s) / 3600
                assert row.cost_usd_per_year == near(paid_h * row.price_usd)
    key = "h100-sxm5-80gb/spot"
    before, after = ready.option(key), cold.option(key)
    assert before is not None
    assert after is not None
    assert (before.gpus, after.gpus) == (8, 1)
    assert yearly(cold, key) > 1.5 * yearly(ready, key)
    assert cold.verdict.choice != key


def test_a_host_that_decodes_images_is_paid_for(tmp_path: Path) -> None:
    """Worked out by hand of 40 million images a night with 6 ms each on four cores, 666.7/s a GPU, 6,083 GPU-hours.

    An L4 at 0.271 USD an hour then costs 1,648 USD a year, an H100 at 9.3722 / 8 USD 7,127 USD.
    """
    model = job(tmp_path, samples="40M", more=", start_up: 0 s", assumed="cpu_ms_per_sample: 6")
    assert yearly(model, "l4/spot") == near(1648, rel=0.002)
    assert yearly(model, "h100-sxm5-80gb/spot") == near(7127, rel=0.002)


@pytest.mark.slow
def test_spot_is_chosen_only_where_it_is_named_and_varies_over_its_zones(tmp_path: Path) -> None:
    plain, named = job(tmp_path, samples="40M", spot=False), job(tmp_path, samples="40M")
    assert "/spot" not in (plain.verdict.choice or "")
    assert "/spot" in (named.verdict.choice or "")
    # The price of eleven regions' cheapest zone held for 97.5 % of the scenarios once; zones go up to eight times it.
    assert (named.verdict.probability_cheapest or 0) < 0.9
    assert any("CPU time to prepare a sample is 6 ms" in words for words in plain.verdict.changes_if)
