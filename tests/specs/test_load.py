"""LOAD.yaml: read strictly, over sourced defaults."""

from pathlib import Path

import pytest

from capplan.core.serving.load import Job, OneGpu, Service, TrainingPurchase
from capplan.errors import SpecError
from capplan.specs.load import demand_without_load, load_defaults, read_demand
from tests.seen import at_least

SERVICE = "service:\n  peak: 500/s\n  latency: 50 ms\n"


@pytest.fixture
def read(tmp_path: Path):
    def write_and_read(text: str):
        path = tmp_path / "load.yaml"
        path.write_text(text)
        return read_demand(path)

    return write_and_read


@pytest.mark.parametrize("stream", ["1.2.3 per second, under 8 s", "3 per second, p9.9.9 under 8 s", "3 apples"])
def test_a_stream_that_cannot_be_read_says_what_would_do(read, stream):
    with pytest.raises(SpecError, match=r"images: '.*' cannot be read; write a rate and a limit, such as 3 per second"):
        read(f"images: {stream}\n")


def test_a_service_over_its_defaults(read):
    demand = read(SERVICE)
    load = demand.load
    assert isinstance(load, Service)
    assert (load.peak_per_s, load.latency_limit_s, load.percentile) == (500, 0.05, 95)
    assert load.mean_per_s == 250  # peak over mean is 2 unless stated
    assert load.utilization_ceiling_fraction == 0.7
    assert load.spares == 1
    assert "peak_to_mean" in {each.key for each in demand.assumptions}


def test_every_default_has_a_range_a_basis_and_a_source():
    for kind in ("service", "job", "training"):
        for each in at_least(3, load_defaults(kind).values()):
            assert each.low <= each.value <= each.high
            assert each.basis in ("published", "secondary", "derived", "judgement")
            assert each.source


def test_units_of_rates_times_shares_and_counts(read):
    load = read("service:\n  peak: 30k/min\n  mean: 1.2M/h\n  latency: 0.05 s\n  growth_per_year: 20 %\n").load
    assert isinstance(load, Service)
    assert (load.peak_per_s, load.mean_per_s) == (500, pytest.approx(1.2e6 / 3600))
    assert load.growth_per_year_fraction == pytest.approx(0.2)
    job = read("job:\n  samples: 40M\n  deadline: 6 h\n").load
    assert isinstance(job, Job)
    assert job.start_up_s == 300
    assert job.rate_per_s == pytest.approx(40e6 / (21600 - 300))
    training = read("training:\n  samples: 1281167\n  epochs: 90\n  deadline: 2 d\n").load
    assert isinstance(training, TrainingPurchase)
    assert training.rate_per_s == pytest.approx(1281167 * 90 / (172800 - 300))


def test_a_daily_curve_gives_peak_and_mean(read):
    hours = ", ".join(str(100 + 10 * hour) for hour in range(24))
    load = read(f"service:\n  daily: [{hours}]\n  latency: 50 ms\n").load
    assert isinstance(load, Service)
    assert (load.peak_per_s, load.mean_per_s) == (330, 215)
    assert len(load.daily_per_s) == 24


def test_hours_of_use_give_the_levels_that_rented_machines_follow(read):
    # 22 h to 6 h are 8 of 24 hours, on 5 of 7 days; the mean is stated over them. A year has 365 / 7 weeks.
    load = read(SERVICE + "  mean: 300/s\n  hours: 22:00-06:00\n  days_per_week: 5\n  start_up: 10 min\n").load
    assert load.mean_per_s == pytest.approx(300 * 8 / 24 * 5 / 7)
    assert [hour for hour, rate in enumerate(load.daily_per_s) if rate] == [0, 1, 2, 3, 4, 5, 22, 23]
    (level,) = load.levels
    assert (level.peak_fraction, load.start_up_s) == (1.0, 600.0)
    assert level.hours_per_year == pytest.approx(8 * 5 * 365 / 7)
    # A day of use is from 0 to 6 h and from 22 h on: its nights are joined but for the last of the week.
    assert level.starts_per_year == pytest.approx(6 * 365 / 7)
    # A rise from 100 to 500 at 9 h: the machines of 500 start once a day, in an hour that is counted at 100.
    rates = ", ".join(["100/s"] * 9 + ["500/s"] * 8 + ["0/s"] * 7)
    high, low = read(f"service:\n  daily: [{rates}]\n  latency: 50 ms\n").load.levels
    assert (high.peak_fraction, low.peak_fraction) == (1.0, 0.2)
    assert (high.hours_per_year, low.hours_per_year) == (pytest.approx(8 * 365), pytest.approx(9 * 365))
    assert (high.starts_per_year, low.starts_per_year) == (pytest.approx(365), pytest.approx(0))
    assert read(f"service:\n  daily: [{rates}]\n  latency: 50 ms\n  scale_by_hour: false\n").load.levels == ()


def test_own_assumptions_replace_defaults_and_say_so(read):
    demand = read(SERVICE + "assumptions:\n  usd_per_kwh: {value: 0.19, low: 0.15, high: 0.25, source: our contract}\n")
    assert demand.money.usd_per_kwh == 0.19
    [mine] = [each for each in demand.assumptions if each.key == "usd_per_kwh"]
    assert (mine.low, mine.high, mine.basis, mine.source) == (0.15, 0.25, "yours", "our contract")


def test_without_a_load_one_gpu_is_compared():
    assert isinstance(demand_without_load().load, OneGpu)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("service:\n  peak: 100/s\n  mean: 200/s\n  latency: 50 ms\n", "service.mean: 200/s is above the peak"),
        ("service:\n  peak: 0\n  latency: 50 ms\n", "service.peak: must be above 0"),
        ("service:\n  peak: -3/s\n  latency: 50 ms\n", "service.peak: '-3/s' is not a rate"),
        ("service:\n  latency: 50 ms\n", "service.peak: is missing"),
        ("service:\n  peak: 100/s\n", "service.latency: is missing"),
        ("service:\n  peak: 100/s\n  latency: 50\n", "service.latency: must be a time with its unit"),
        ("service:\n  peak: 100/s\n  latency: 50 parsec\n", "50 parsec"),
        (SERVICE + "  spares: 1.5\n", "service.spares: must be a whole number"),
        (SERVICE + "  percentile: 100\n", "service.percentile: must lie between 1 and 99.9"),
        (SERVICE + "  utilization_ceiling: 1.2\n", "service.utilization_ceiling: must lie between"),
        (SERVICE + "  growth_per_year: 5\n", "service.growth_per_year: 5 may mean 5 % or 500 %"),
        (SERVICE + "  batching_window: 60 ms\n", "service.batching_window: takes the whole latency limit"),
        (SERVICE + "  allow_spot: maybe\n", "service.allow_spot: must be true or false"),
        (SERVICE + "  daily: [1, 2]\n", "service.daily: must be a list of 24"),
        (SERVICE + "  hours: 8\n", "service.hours: must be whole hours of a day such as 8-18 or 22-6, not 8"),
        (SERVICE + "  hours: 8-25\n", "service.hours: must be whole hours of a day"),
        (SERVICE + "  days_per_week: 8\n", "service.days_per_week: must be a whole number from 1 to 7, not 8"),
        (SERVICE + "  scale_by_hour: true\n", "service.scale_by_hour: needs hours to follow; state hours: 8-18"),
        (SERVICE + "  start_up: 5 min\n", "service.start_up: needs hours to follow"),
        (SERVICE + "  percentil: 99\n", "service.percentil: unknown key; did you mean percentile?"),
        (SERVICE + "job:\n  samples: 5\n  deadline: 1 h\n", "exactly one of service, job, training"),
        ("money:\n  years: 3\n", "exactly one of service, job, training"),
        (SERVICE + "assumptions:\n  pue: 0.9\n", "assumptions.pue: cannot be below 1"),
        (SERVICE + "assumptions:\n  years: 2.5\n", "assumptions.years: must be a whole number"),
        (
            SERVICE + "assumptions:\n  residual_fraction: 1.5\n",
            "assumptions.residual_fraction: must lie between 0 and 1",
        ),
        (SERVICE + "assumptions:\n  pue: {value: 1.3, low: 1.4, high: 1.5}\n", "assumptions.pue: the range"),
        (SERVICE + "assumptions:\n  pue: {low: 1.1}\n", "assumptions.pue.value: is missing"),
        (SERVICE + "assumptions:\n  pue: high\n", "assumptions.pue.value: must be a number"),
        (SERVICE + "assumptions:\n  electricity: 0.2\n", "assumptions.electricity: unknown key"),
        ("job:\n  samples: many\n  deadline: 6 h\n", "job.samples: 'many' is not a count"),
        (
            "job:\n  samples: 5M\n  deadline: 30 h\n  runs_per_year: 300\n",
            "job.runs_per_year: 300 runs of 30 h do not fit into a year",
        ),
        ("training:\n  samples: 5M\n  epochs: 0\n  deadline: 30 h\n", "training.epochs: must be above 0"),
        (SERVICE + "  peak: 100/s\n", "is given twice"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(read, text, words):
    with pytest.raises(SpecError) as caught:
        read(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(("deadline", "runs"), [("8 h", 365), ("30 h", 292), ("500 d", 1)])
def test_a_job_runs_as_often_as_it_fits_into_a_year_where_nothing_is_stated(read, deadline, runs):
    """366 days of 24 h hold 292 runs of 30 h; a job longer than a year runs once."""
    demand = read(f"job:\n  samples: 5M\n  deadline: {deadline}\n")
    assert demand.load.runs_per_year == runs
    [assumed] = [item for item in demand.assumptions if item.key == "runs_per_year"]
    assert (assumed.value, assumed.basis) == (runs, "judgement" if runs == 365 else "derived")


def test_all_problems_are_told_at_once(read):
    with pytest.raises(SpecError) as caught:
        read("service:\n  peak: x\n  latency: 50\n  spares: -1\n")
    assert len(str(caught.value).splitlines()) == 3


def test_an_availability_that_its_zones_cannot_have_is_refused(read):
    service = "service: {peak: 500/s, latency: 50 ms, "
    load = read(service + "availability: 99.9 %, zones: 2}").load
    assert (load.availability_fraction, load.zones, load.spares) == (pytest.approx(0.999), 2, 0)
    assert read(service + "availability: 0.99, spares: 2}").load.spares == 2
    with pytest.raises(SpecError, match=r"availability: must lie between 50 % and 99.93 %, which one zone is up"):
        read(service + "availability: 99.95 %}")
    with pytest.raises(SpecError, match=r"zones: must be a whole number from 1 to 12, not 0"):
        read(service + "zones: 0}")


def test_a_start_that_takes_the_deadline_is_refused_and_a_short_deadline_narrows_its_range(read):
    with pytest.raises(SpecError, match=r"job.start_up: machines start for 300 s, .* of the deadline of 240 s"):
        read("job:\n  samples: 4M\n  deadline: 4 min\n")
    assert read("job:\n  samples: 4M\n  deadline: 4 min\n  start_up: 0 s\n").load.rate_per_s == 4e6 / 240
    [start] = [each for each in read("job:\n  samples: 4M\n  deadline: 10 min\n").assumptions if each.key == "start_up"]
    assert (start.value, start.high) == (300, 540)  # from 900 s, of which the deadline leaves nine tenths
