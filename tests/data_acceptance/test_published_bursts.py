"""Benchmarks that send every request at once, as `vllm bench serve` does by default: published ones, fitted nowhere.

`published_bursts.csv` holds the figures of GPUStack's performance lab (Apache-2.0, read 2026-11-27) for A100 and H200:
500 to 1,000 chats or prompts of one length, of which the source states the means. Chats are taken to vary log-normally
with a deviation of their mean. Pages of H100s are left out: they do not say which H100 it was.
"""

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from capplan.app.deployments import Deployments
from capplan.llm.core.search.judged_runs import validate_serving
from capplan.llm.core.serving.cases import Metric
from capplan.llm.read.calibrations import load_time_calibration
from capplan.llm.read.serving_rows import read_serving
from capplan.specs import load_gpus
from tests.seen import at_least

pytestmark = pytest.mark.slow

RUNS = Path(__file__).with_name("published_bursts.csv")


def test_tokens_per_second_of_a_burst_count_its_beginning_and_its_end() -> None:
    runs = at_least(90, read_serving(RUNS).runs)
    found = validate_serving(
        [replace(run, quality="A") for run in runs], find=Deployments(load_gpus()).find,
        calibration=load_time_calibration(),
    )  # fmt: skip
    assert found.skipped == ()
    rates = [answer for answer in found.answers if answer.metric is Metric.OUTPUT_TOKENS_PER_S]
    errors = [abs(answer.predicted.expected / answer.measured - 1) for answer in rates]
    inside = [answer.predicted.low <= answer.measured <= answer.predicted.high for answer in rates]
    # Taken as endless runs they err by 51 % (median); engines through HTTP take a fifth longer than capplan says.
    assert median(errors) < 0.22
    assert sum(inside) / len(inside) > 0.75
