"""Laws of pipelines: time is a sum, memory the worst moment, and a pipeline of one part is the part."""

from dataclasses import replace
from pathlib import Path

import pytest

import capplan
from capplan.core.plan.types import Fit, Plan
from capplan.errors import CapplanError
from capplan.report.text.pipelines import pipeline_lines
from capplan.specs.pipeline_file import read_pipeline
from capplan.units import format_joules

GPU = "h100-sxm5-80gb"


def planned(path: Path, **settings: int) -> Fit:
    """Return the plan of a pipeline on one GPU at a batch of one item."""
    plan: Plan = capplan.plan(str(path), allow_code=True, gpus=[GPU], batches=[1], settings=settings)
    return plan.fits[0]


def part_s(fit: Fit, name: str) -> float:
    return next(part.total_s for part in fit.parts if part.name == name)


def test_time_is_linear_in_steps(pipeline_file: Path) -> None:
    ten, twenty, forty = (planned(pipeline_file, steps=steps) for steps in (10, 20, 40))
    once = twenty.latency.latency_s.expected - ten.latency.latency_s.expected
    twice = forty.latency.latency_s.expected - twenty.latency.latency_s.expected
    assert twice == pytest.approx(2 * once)
    assert part_s(forty, "denoiser") == pytest.approx(4 * part_s(ten, "denoiser"))


def test_what_the_cpu_prepares_of_an_item_adds_to_its_time(pipeline_file: Path) -> None:
    before = planned(pipeline_file)
    text = pipeline_file.read_text(encoding="utf-8")
    pipeline_file.write_text(text.replace("parts:", "host_s: steps * 0.001\nparts:"), encoding="utf-8")
    fit = planned(pipeline_file)
    assert fit.latency.latency_s.expected - before.latency.latency_s.expected == pytest.approx(20 * 0.001)
    assert (fit.parts[0].name, fit.parts[0].on) == ("host", "the CPU")
    assert sum(part.total_s for part in fit.parts) == pytest.approx(fit.latency.latency_s.expected)
    two: Plan = capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], batches=[2])
    assert part_s(two.fits[0], "host") == pytest.approx(2 * 0.020)
    pipeline_file.write_text(text.replace("parts:", "host_s: nonsense\nparts:"), encoding="utf-8")
    with pytest.raises(CapplanError, match="nonsense"):
        read_pipeline(pipeline_file)


def test_the_interval_is_the_last_figure_of_a_table_to_go(pipeline_file: Path) -> None:
    plan: Plan = capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU, "l4"], batches=[1])
    for width in range(60, 130, 10):
        rows = ["".join(str(getattr(span, "text", span)) for span in row) for row in pipeline_lines(plan, width=width)]
        assert any("from … to" in row for row in rows), width


def test_the_parts_add_up_to_the_whole(pipeline_file: Path) -> None:
    fit = planned(pipeline_file)
    assert sum(part.total_s for part in fit.parts) == pytest.approx(fit.latency.latency_s.expected)
    assert fit.memory.total_bytes.expected == pytest.approx(max(part.peak_bytes for part in fit.parts))


def test_a_part_that_never_runs_costs_its_weights_alone(pipeline_file: Path) -> None:
    none, plan = (
        planned(pipeline_file, steps=0),
        capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], batches=[1]),
    )
    assert part_s(none, "denoiser") == 0
    assert none.memory.total_bytes.expected <= plan.fits[0].memory.total_bytes.expected
    weights = sum(part.size_bytes.expected for part in none.memory.parts if "weights" in part.name)
    # 2 × (64·256 + 256 + 256·64 + 64) + (128·512 + 512 + 512·128 + 128) parameters of two bytes
    assert weights == 2 * (2 * (64 * 256 + 256 + 256 * 64 + 64) + 128 * 512 + 512 + 512 * 128 + 128)


def test_a_pipeline_of_one_part_is_the_part(pipeline_file: Path) -> None:
    alone = pipeline_file.parent / "alone.pipeline.yaml"
    alone.write_text('parts: {mixer: {model: "mixer.py:Mixer", inputs: ["x=77x64"]}}\n', encoding="utf-8")
    batches = [1, 8, 1024]
    gpus = [GPU, "l4", "t4"]
    model = capplan.plan("mixer.py:Mixer", inputs=["x=77x64"], gpus=gpus, batches=batches)
    pipeline = capplan.plan(str(alone), allow_code=True, gpus=gpus, batches=batches)
    assert [fit.latency for fit in pipeline.fits] == [fit.latency for fit in model.fits]
    assert [fit.memory.total_bytes for fit in pipeline.fits] == [fit.memory.total_bytes for fit in model.fits]
    assert [fit.max_batch for fit in pipeline.fits] == [fit.max_batch for fit in model.fits]
    assert pipeline.model.flops_per_sample == model.model.flops_per_sample


def test_offloading_takes_less_memory_and_more_time(pipeline_file: Path) -> None:
    fits = [
        capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], batches=[1], offload=offload).fits[0]
        for offload in ("none", "model", "sequential")
    ]
    memory = [fit.memory.total_bytes.expected for fit in fits]
    times = [fit.latency.latency_s.expected for fit in fits]
    assert memory == sorted(memory, reverse=True)
    assert memory[0] > memory[2]
    assert times == sorted(times)
    assert [fit.offload for fit in fits] == ["none", "model", "sequential"]


def test_parts_on_other_devices_leave_the_batch_its_time_and_follow_at_that_of_the_busiest(pipeline_file: Path) -> None:
    plain, stream, another = (
        capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], batches=[4], part_settings=settings).fits[0]
        for settings in ({}, {"decoder.on": "stream"}, {"decoder.on": "another"})
    )
    times = {part.name: part.total_s for part in plain.parts}
    for fit in (stream, another):
        assert fit.latency.latency_s.expected == pytest.approx(plain.latency.latency_s.expected)
    # two GPUs: encoder and denoiser on one, the decoder on the other, which is free sooner
    assert another.latency.gpus_per_batch == 2
    assert another.latency.throughput_per_s.expected == pytest.approx(4 / (times["encoder"] + times["denoiser"]))
    # two streams of one GPU: no faster than the busier stream, no slower than one after the other
    between = 4 / stream.latency.throughput_per_s.expected
    assert times["encoder"] + times["denoiser"] <= between * (1 + 1e-9) <= plain.latency.latency_s.expected * (1 + 2e-9)
    assert stream.memory.total_bytes.expected >= plain.memory.total_bytes.expected


def test_a_part_that_waits_for_none_runs_beside_the_others_where_it_has_a_device_of_its_own(
    pipeline_file: Path,
) -> None:
    apart = {"encoder.on": "epyc-9654", "denoiser.after": (), "decoder.after": ["encoder", "denoiser"]}
    apart["encoder.precision"] = "fp32"
    plan = capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], batches=[1], part_settings=apart)
    [fit] = plan.fits
    encoder, denoiser, decoder = fit.parts
    assert (encoder.start_s, denoiser.start_s, encoder.on, encoder.peak_bytes) == (0, 0, "epyc-9654", 0)
    assert decoder.start_s == pytest.approx(max(encoder.total_s, denoiser.total_s))
    assert fit.latency.latency_s.expected == pytest.approx(decoder.start_s + decoder.total_s)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decoder.speed": 2}, "'speed' is not what a part may be set; use"),
        ({"decode.on": "stream"}, "has no part 'decode'; it has encoder, denoiser, decoder"),
        (
            {"decoder.on": "epyc-9655"},
            "decoder runs on 'epyc-9655'; use gpu, stream, another .* a CPU such as epyc-97",
        ),
        ({"on": "stream"}, "no part runs on the GPU"),
        ({"encoder.after": "decoder"}, "encoder.after: 'decoder' is not a part before it"),
        ({"decoder.attention": "flash-4"}, "decoder.attention: 'flash-4' is not known; use flash, flash-3"),
    ],
)
def test_part_settings_that_say_nothing_are_refused(
    pipeline_file: Path, settings: dict[str, str], message: str
) -> None:
    with pytest.raises(CapplanError, match=message):
        capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], part_settings=settings)


def test_a_gpu_unlike_the_measured_ones_has_the_widest_range(pipeline_file: Path) -> None:
    pipeline_file.write_text(pipeline_file.read_text().replace("times: steps", "times: steps\n    kind: denoiser"))
    gpus = ["h100-sxm5-80gb", "h100-pcie-80gb", "a100-pcie-80gb"]  # measured, of the same chips, of others
    plan = capplan.plan(str(pipeline_file), allow_code=True, gpus=gpus, batches=[1], settings={"steps": 10_000})
    widths = {fit.gpu.id: fit.latency.latency_s.high / fit.latency.latency_s.expected for fit in plan.fits}
    assert [name for name, _ in sorted(widths.items(), key=lambda item: item[1])] == gpus


def test_one_sample_a_run_is_whole_at_every_batch(pipeline_file: Path) -> None:
    pipeline = read_pipeline(pipeline_file)
    part = replace(pipeline.parts[2], samples="1 / batch", times="batch")
    assert {pipeline.runs(part, batch).batch for batch in range(1, 300)} == {1}  # 49 * (1 / 49) is 0.9999999999999999


def test_layers_that_are_copied_ahead_take_the_longer_of_copying_and_computing(pipeline_file: Path) -> None:
    none, streamed, sequential = (
        capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], batches=[1], offload=offload).fits[0]
        for offload in ("none", "streamed", "sequential")
    )
    h100 = none.gpu.pcie_bytes_per_s
    assert h100 is not None
    for before, after, whole in zip(none.parts, streamed.parts, sequential.parts, strict=True):
        weights = 2 * (128 * 512 + 512 + 512 * 128 + 128) if before.name == "denoiser" else 2 * 33_088
        copied_s = before.times * weights / (0.8 * h100)  # 33,088 = 64·256 + 256 + 256·64 + 64; pinned memory at 0.8
        assert after.total_s == pytest.approx(max(before.total_s, copied_s))
        # pageable memory: 6.3 GB/s, as of PCIe 3 x16 (published: about 6 of 15.8), which PCIe 5 does not raise
        assert whole.total_s == pytest.approx(before.total_s + before.times * weights / 6.3e9)
    assert (
        none.latency.latency_s.expected <= streamed.latency.latency_s.expected < sequential.latency.latency_s.expected
    )
    assert sequential.memory.total_bytes.expected <= streamed.memory.total_bytes.expected


def test_a_larger_batch_never_takes_less_memory_or_time(pipeline_file: Path) -> None:
    plan = capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], batches=[1, 2, 4, 8, 16])
    fits = sorted(plan.fits, key=lambda fit: fit.batch)
    allocated = [fit.memory.peak_allocated_bytes.expected for fit in fits]
    assert allocated == sorted(allocated)
    assert [fit.latency.latency_s.expected for fit in fits] == sorted(fit.latency.latency_s.expected for fit in fits)


def test_parts_add_up_under_a_power_limit_too_and_the_short_answer_says_joules_per_item(pipeline_file: Path) -> None:
    # so many tokens that the card computes, and the steps draw more than a limit just above what it draws without work
    large = {"tokens": 2_000_000}
    free, capped = (
        capplan.plan(
            str(pipeline_file), allow_code=True, gpus=[GPU], batches=[1], settings=large, power_limit_w=limit_w
        )
        for limit_w in (700, 210)
    )
    before, after = free.fits[0], capped.fits[0]
    assert after.latency.latency_s.expected > before.latency.latency_s.expected
    assert sum(part.total_s for part in after.parts) == pytest.approx(after.latency.latency_s.expected)
    assert after.energy is not None
    assert after.energy.power_w.expected <= 210
    text = "".join(
        span.text if hasattr(span, "text") else span for row in pipeline_lines(capped, width=100) for span in row
    )
    assert f"{format_joules(after.energy.joules_per_sample.expected)} (" in text
    assert " per image" in text


def test_a_power_limit_lengthens_what_the_gpu_computes_and_not_what_the_cpu_prepares(pipeline_file: Path) -> None:
    def fit(limit_w: float) -> Fit:
        plan: Plan = capplan.plan(
            str(pipeline_file), allow_code=True, gpus=[GPU], batches=[1], settings={"tokens": 2_000_000},
            power_limit_w=limit_w,
        )  # fmt: skip
        return plan.fits[0]

    alone_s = fit(210).latency.latency_s.expected
    text = pipeline_file.read_text(encoding="utf-8")
    pipeline_file.write_text(text.replace("parts:", "host_s: 10\nparts:"), encoding="utf-8")
    free, capped = fit(700), fit(210)
    assert alone_s > free.latency.latency_s.expected - 10  # the limit binds
    assert capped.latency.latency_s.expected == pytest.approx(10 + alone_s)
    assert part_s(capped, "host") == pytest.approx(10)
    assert [part.start_s for part in capped.parts[:2]] == pytest.approx([0, 10])
    assert sum(part.total_s for part in capped.parts) == pytest.approx(capped.latency.latency_s.expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"stepz": 3}, "has no parameter 'stepz' to set; it has steps"), ({"steps": -1}, "a part runs from 0 to")],
)
def test_settings_that_say_nothing_are_refused(pipeline_file: Path, settings: dict[str, int], message: str) -> None:
    with pytest.raises(CapplanError, match=message):
        capplan.plan(str(pipeline_file), allow_code=True, gpus=[GPU], settings=settings)


def test_a_setting_beside_a_model_is_refused(pipeline_file: Path) -> None:
    with pytest.raises(CapplanError, match="describe a pipeline"):
        capplan.plan("mixer.py:Mixer", inputs=["x=77x64"], settings={"steps": 3})


def test_a_job_on_two_gpus_takes_twice_the_time_from_batch_to_batch(pipeline_file: Path) -> None:
    plan = capplan.plan(
        str(pipeline_file),
        allow_code=True,
        gpus=[GPU],
        batches=[1],
        samples=7200,
        part_settings={"decoder.on": "another"},
    )
    [fit] = plan.fits
    hours = plan.gpu_hours(fit)
    assert hours is not None
    assert fit.latency.interval_s is not None
    # 7,200 batches of one item, one after the other at the interval, on two GPUs: 7200 · 2 / 3600 = 4 hours a second
    assert hours.expected == pytest.approx(4 * fit.latency.interval_s.expected)
    assert hours.high == pytest.approx(4 * fit.latency.interval_s.high)
