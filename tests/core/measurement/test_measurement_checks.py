"""A measured point that was damaged or bent is refused with the place that is wrong."""

import json
from typing import Any

import pytest

from capplan.core.measurement.format import parse_points, point_to_json
from capplan.errors import MeasurementFileError
from tests.core.measurement.test_measurement import FULL


def parse(text: str) -> Any:
    return parse_points(text.encode(), where="m.jsonl").points


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("schema_version",), True, "measurement schema True"),
        (("latency_s", "samples"), [], "latency_s.samples must not be empty"),
        (("latency_s", "samples"), [0.1, 0], "latency_s.samples[1] is 0"),
        (("latency_s", "samples"), [1e-320], "latency_s.samples[0] is 1e-320"),
        (("latency_s", "samples"), [0.1] * 20_001, "holds 20,001 samples; at most 20,000 are read"),
        (("latency_s", "samples"), ["0.1"], "latency_s.samples[0] is '0.1'; it must be a number"),
        (("latency_s", "samples"), [1e300], "latency_s.samples[0] is 1e+300"),
        (("workload", "batch"), 0, "workload.batch is 0"),
        (("workload", "batch"), True, "workload.batch is True"),
        (("workload", "batch"), 1.5, "workload.batch is 1.5"),
        (("workload", "precision"), "fp33", "workload.precision is 'fp33'"),
        (("model", "words"), [], "model.words is a list of 0; it must be a text"),
        (("model", "colour"), "red", "colour"),
        (("device", "name"), 1e30, "device.name is 1e+30"),
        (("device", "memory_bytes"), "", "device.memory_bytes is ''"),
        (("device", "clocks"), 5, "clocks is 5"),
        (("warm_up", "elapsed_s"), "x", "warm_up.elapsed_s is 'x'"),
        (("power_w",), [], "power_w is a list of 0"),
        (("memory",), "", "memory is ''"),
        (("memory", "process_bytes"), -1, "memory.process_bytes is -1"),
        (("estimate",), [1], "estimate is a list of 1"),
        (("finite_outputs",), "yes", "finite_outputs is 'yes'"),
        (("notes",), "note", "notes is 'note'"),
        (("date",), "yesterday", "yesterday"),
    ],
)
def test_what_is_wrong_is_refused_by_its_place(path: tuple[str, ...], value: Any, place: str) -> None:
    document = json.loads(json.dumps(point_to_json(FULL)))
    part = document
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(MeasurementFileError) as refused:
        parse(json.dumps(document) + "\n")
    assert str(refused.value).startswith("m.jsonl, line 1")
    assert place in str(refused.value)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_sample_that_is_no_number_is_refused(word: str) -> None:
    text = json.dumps(point_to_json(FULL)).replace('"samples": [', f'"samples": [{word}, ')
    with pytest.raises(MeasurementFileError, match=f"line 1 holds {word}, which is not a number"):
        parse(text + "\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"measurements":[],"failures":5}',
        '{"measurements":[5]}',
        '{"schema_version":1}\n',
        "[" * 200_000 + "]" * 200_000 + "\n",
        '{"a":"\\ud800"}\n',
        "1" * 5000 + "\n",
        "\xff\n",
    ],
)
def test_what_is_no_measurement_is_refused(text: str) -> None:
    with pytest.raises(MeasurementFileError, match=r"m\.jsonl"):
        parse(text)


def test_a_missing_part_is_named() -> None:
    document = point_to_json(FULL)
    del document["device"]["torch"]
    with pytest.raises(MeasurementFileError, match=r"device\.torch is missing"):
        parse(json.dumps(document) + "\n")
