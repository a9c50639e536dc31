from dataclasses import replace

import pytest

from capplan.core.gpus.attributes import parse_conditions, ratios_to_first, select_gpus, sort_gpus
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.errors import UnknownNameError, UsageError

SMALL = GpuSpec(
    id="small", name="Small", vendor="NVIDIA", architecture="Turing", architecture_id="turing",
    memory_bytes=16 * 2**30, memory_bandwidth_bytes_per_s=320e9, tdp_w=70.0,
    peak_flops_per_s={PeakKind.FP32: 8e12, PeakKind.BF16: None},
)  # fmt: skip
LARGE = replace(
    SMALL, id="large", architecture="Hopper", architecture_id="hopper", memory_bytes=80 * 2**30, tdp_w=700.0,
    peak_flops_per_s={PeakKind.FP32: 67e12, PeakKind.BF16: 989.4e12},
)  # fmt: skip
OTHER = replace(
    SMALL, id="other", vendor="AMD", architecture="CDNA3", architecture_id="cdna3", tdp_w=None, peak_flops_per_s={}
)
ALL = (SMALL, LARGE, OTHER)


def kept(where: str) -> list[str]:
    return [spec.id for spec in select_gpus(ALL, conditions=parse_conditions(where))]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("bf16 >= 300 TFLOP/s", ["large"]),
        ("bf16 < 300 TFLOP/s", []),  # neither unsupported nor unknown is a small number
        ("bf16 = unsupported", ["small"]),
        ("bf16 = unknown", ["other"]),
        ("bf16 != unsupported", ["large", "other"]),
        ("tdp = unknown", ["other"]),
        ("memory >= 24GiB", ["large"]),
        ("memory_bytes >= 24GiB", ["large"]),
        ("memory > 16 GiB", ["large"]),
        ("memory >= 17 GB", ["small", "large", "other"]),  # 16 GiB are 17.18 GB
        ("bf16 = 989 TFLOP/s", ["large"]),  # as listed, rounded
        ("bf16 == 970 TFLOP/s", []),
        ("arch = hopper", ["large"]),
        ("arch != Hopper", ["small", "other"]),
        ("tdp <= 100 W and fp32 >= 5 TFLOP/s", ["small"]),
        ("tdp<=100W, fp32>=10TFLOP/s", []),
    ],
)
def test_conditions_keep_what_meets_them(where: str, ids: list[str]) -> None:
    assert kept(where) == ids


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("bf16", "'bf16' is not a comparison; write "),
        ("bf16 >= 300", "'300' is not a quantity; write a number and one of"),
        ("bf16 >= 300 GB", "'300 GB' is not a quantity"),
        ("arch >= Hopper", "arch is a word; compare it with = or !="),
    ],
)
def test_what_is_no_condition_is_refused(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        parse_conditions(where)


def test_an_unknown_column_gives_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean bandwidth"):
        parse_conditions("bandwith > 1 TB/s")


def test_vendors_and_architectures_are_known_names() -> None:
    assert [spec.id for spec in select_gpus(ALL, vendors=["amd"])] == ["other"]
    assert [spec.id for spec in select_gpus(ALL, architectures=["Hopper", "turing"])] == ["small", "large"]
    with pytest.raises(UnknownNameError, match="did you mean hopper"):
        select_gpus(ALL, architectures=["hoper"])


def test_sorting_puts_what_has_no_value_last() -> None:
    assert [spec.id for spec in sort_gpus(ALL, "tdp")] == ["small", "large", "other"]
    assert [spec.id for spec in sort_gpus(ALL, "-tdp")] == ["large", "small", "other"]
    assert [spec.id for spec in sort_gpus(ALL, "id")] == ["large", "other", "small"]


def test_ratios_are_to_the_first() -> None:
    assert ratios_to_first([2.0, 3.0, "word"]) == [1.0, 1.5, None]
    assert ratios_to_first(["word", 3.0]) == [None, None]
