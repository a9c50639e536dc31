"""The shipped law of power: what it was made from, and how it meets measured runs that it did not see."""

from pathlib import Path

import numpy as np
import pytest

from capplan import llm, plan
from capplan.app.deployments import Deployments
from capplan.core.numbers import Interval
from capplan.core.power import CardWork, PowerLaw, PowerNovelty, peak_seconds, step_energy
from capplan.errors import SpecError
from capplan.llm.core.search.judged_runs import validate_serving
from capplan.llm.core.serving.accuracy import ServingValidation
from capplan.llm.core.serving.energy import EnergyMetric
from capplan.llm.read.calibrations import load_time_calibration
from capplan.llm.read.serving_rows import read_serving
from capplan.specs import load_gpus
from capplan.specs.fitted import dump_power_law, load_power_law
from tests.seen import at_least

pytestmark = pytest.mark.slow

ROWS = Path(__file__).parents[3] / "shared" / "data" / "energy" / "llm-energy.csv.gz"
beside = pytest.mark.skipif(not ROWS.is_file(), reason="the measured runs beside the project are not here")


@pytest.fixture(scope="module")
def law() -> PowerLaw:
    return load_power_law()


def test_the_law_names_its_origin_and_is_written_as_it_is_read(law: PowerLaw, tmp_path: Path) -> None:
    assert law.origin.rows > 1000
    assert "benchmarks/energy.py" in law.origin.command
    path = tmp_path / "copy.yaml"
    path.write_text(dump_power_law(law))
    assert load_power_law(path) == law


def test_the_constants_are_shares_and_others_are_less_certain(law: PowerLaw) -> None:
    for name, constants in at_least(2, law.architectures.items()):
        assert 0 <= constants.base_fraction < 1, name
        assert 0 < constants.log_half_width < law.others.log_half_width, name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema_version: 7", "is not a law of power of schema_version 3"),
        ("schema_version: 3", "origin: is missing"),
        ("schema_version: [", r"law\.yaml: line 2: "),
        ("schema_version: 3\norigin: {made: soon}", "origin.made: is 'soon'"),
    ],
)
def test_a_file_that_is_no_law_is_refused_in_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "law.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=words):
        load_power_law(path)


def test_held_out_errors_are_those_that_the_page_states(law: PowerLaw) -> None:
    # asked of models that were not seen: power within 8 % in the middle and 20 % at the 90th percentile, time and batch
    # given, joules per output token within 12 and 30 %. The page says that served models miss the first of these by a
    # tenth of a point (nested leave-one-out).
    errors = law.origin.held_out_errors
    assert errors["diffusion models"]["median"] <= 0.08
    assert all(errors[kind]["p90"] <= 0.20 for kind in ("served models", "diffusion models"))
    joules = errors["joules of chat and reasoning, time predicted"]
    assert joules["median"] <= 0.12
    assert joules["p90"] <= 0.30
    page = (Path(__file__).parents[2] / "docs" / "energy.md").read_text(encoding="utf-8")
    for name, found in errors.items():
        row = f"| {name} | {found['rows']:.0f} | {100 * found['median']:.1f} % | {100 * found['p90']:.1f} % "
        assert row in page, name


@pytest.fixture(scope="module")
def found(law: PowerLaw) -> ServingValidation:
    return validate_serving(
        read_serving(ROWS).runs,
        find=Deployments(gpus=load_gpus(), assumes_narrow_cache=True).find,
        calibration=load_time_calibration(None),
        power_law=law,
    )


@pytest.mark.shared
@beside
def test_power_of_measured_runs_is_nearer_than_any_flat_share_of_the_limit(found: ServingValidation) -> None:
    answers = [item for item in found.answers if item.metric is EnergyMetric.POWER]
    assert len(answers) > 500
    gpus = load_gpus()
    limits = [(gpus.find(item.run.gpu).tdp_w or 0) * item.run.sharding.gpus for item in answers]
    shares = np.array([item.measured for item in answers]) / limits
    flat = np.abs(np.median(shares) / shares - 1)  # the best flat share, which saw all rows
    errors = np.abs([item.error for item in answers])
    assert np.median(errors) < 0.6 * np.median(flat)
    assert np.quantile(errors, 0.9) < 0.6 * np.quantile(flat, 0.9)


@pytest.mark.shared
@beside
def test_intervals_hold_about_nine_of_ten_measured_runs(found: ServingValidation) -> None:
    # 85 to 95 % are asked where the requests are stated; the others are given the width of models whose requests are
    # not known, which most of these rows, whose prompts were chosen with the fit, do not need
    for metric, is_stated in ((EnergyMetric.POWER, True), (EnergyMetric.JOULES, True), (EnergyMetric.POWER, False)):
        answers = [
            item
            for item in found.answers
            if item.metric is metric and item.run.energy is not None and item.run.energy.is_timed is is_stated
        ]
        inside = [item.predicted.low <= item.measured <= item.predicted.high for item in at_least(200, answers)]
        assert np.mean(inside) >= 0.86, metric
        assert np.mean(inside) <= (0.95 if is_stated else 1.0), metric


def test_power_is_covered_in_every_split_and_its_widths_say_something(law: PowerLaw) -> None:
    # 85 to 95 % are asked of each split of 20 rows and more, and intervals below a factor of two to either side
    splits = {name: found for name, found in law.origin.held_out_errors.items() if "coverage" in found}
    judged = at_least(20, [(name, found) for name, found in splits.items() if found["rows"] >= 20])
    for name, found in judged:
        assert found["coverage"] >= 0.85, name
        assert found["width"] < np.log(2) or name.startswith("joules, GPU"), name
    power = [found["coverage"] for name, found in judged if not name.startswith("joules")]
    assert np.mean(np.array(power) <= 0.955) >= 0.85  # few are wider than asked


def test_an_h200_that_streams_draws_more_of_its_limit_than_an_h100(law: PowerLaw) -> None:
    # RRZE-HPC/gpu-benches@1038c5d, gpu-roofline on an H200 SXM: 578 W of 700 while it streams. Streams reach 92 % of
    # the printed bandwidth of 4.8 TB/s there; no H200 is among the rows that made the law.
    gpu = load_gpus().find("h200-sxm-141gb")
    work = peak_seconds(gpu, CardWork(traffic_bytes=0.92 * 4.8e12, flops={}, time_s=1.0))
    found = step_energy(gpu, work, Interval.exact(1.0), law, samples=1.0, novelties=frozenset({PowerNovelty.WORK}))
    assert found is not None
    assert found.power_w.expected == pytest.approx(578, rel=0.1)
    assert found.power_w.low <= 578 <= found.power_w.high


def test_an_rtx_3090_at_280_of_350_watts_keeps_nearly_all_of_its_speed() -> None:
    # Puget Systems, Quad RTX 3090 GPU Wattage Limited: ResNet-50 at 95 % of the speed at 280 W
    free, capped = (
        plan("resnet50", precision="amp-fp16", batches=128, gpus=["rtx-3090"], power_limit_w=limit_w).fits[0]
        for limit_w in (350, 280)
    )
    kept = capped.latency.throughput_per_s.expected / free.latency.throughput_per_s.expected
    assert kept == pytest.approx(0.95, abs=0.05)


def test_errors_of_the_law_of_caps_are_those_that_the_page_states(law: PowerLaw) -> None:
    page = (Path(__file__).parents[2] / "docs" / "energy.md").read_text(encoding="utf-8")
    assert law.capping.rows == law.capping.held_out_errors["all"]["rows"] >= 15
    assert f"The exponent of all cards is {law.capping.exponent:.2f}" in page
    for card, found in law.capping.held_out_errors.items():
        assert card == "all" or f"| {card} | {found['rows']:.0f} | {found['exponent']:.2f} |" in page


PAGE = (Path(__file__).parents[2] / "docs" / "energy.md").read_text(encoding="utf-8")


def test_the_page_shows_what_a_cap_costs() -> None:
    rows = [line.split("|")[1:4] for line in PAGE.split("<!-- example: cap -->")[1].splitlines()[3:7]]
    assert len(rows) == 4
    for limit, rate, joules in rows:
        made = llm.estimate(
            "qwen3-8b",
            gpu="h100-sxm5-80gb",
            power_limit_w=float(limit.split()[0]),
            concurrency="64",
            input_len=300,
            output_len=500,
        )
        point = made.points[0]
        assert point.output_tokens_per_s.expected == pytest.approx(float(rate.replace(",", "")), rel=0.05)
        assert point.energy is not None
        assert point.energy.joules_per_output_token.expected == pytest.approx(float(joules.split()[0]), rel=0.1)


@pytest.mark.nightly
def test_the_page_shows_what_an_image_takes_and_what_a_month_of_them_does() -> None:
    (row,) = [line.split("|")[1:4] for line in PAGE.split("<!-- example: month -->")[1].splitlines()[3:4]]
    made = plan("diffusers:black-forest-labs/FLUX.1-schnell", gpus=[row[0].strip()], batches=1, energy=True)
    fit = made.fits[0]
    assert fit.energy is not None
    assert fit.latency.latency_s.expected == pytest.approx(float(row[1].split()[0]), rel=0.05)
    assert fit.energy.joules_per_sample.expected == pytest.approx(float(row[2].split()[0]), rel=0.1)
    # 730 J · 10⁶ ÷ 3.6 MJ/kWh = 203 kWh; 2.17 s · 10⁶ ÷ 3,600 s = 602 h; 128 h · 62.3 W = 8.0 kWh
    assert "203 kWh" in PAGE
    assert "602 of 730 hours" in PAGE
    assert "8.0 kWh" in PAGE


def test_the_page_shows_what_the_command_answers_for_a_chat_service() -> None:
    page = (Path(__file__).parents[2] / "docs" / "energy.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:4] for line in page.split("<!-- example: chat -->")[1].splitlines()[3:6]]
    assert len(rows) == 3
    for gpu, watts, joules in rows:
        made = llm.estimate("qwen3-8b", gpu=gpu.strip(), energy=True, concurrency="64", input_len=300, output_len=500)
        found = made.points[0].energy
        assert found is not None
        assert found.power_w.expected == pytest.approx(float(watts.split()[0]), rel=0.1)
        assert found.joules_per_output_token.expected == pytest.approx(float(joules.split()[0]), rel=0.1)
