"""A plan of a model that nobody has, on real GPUs with their real prices: input for tests of reports."""

import base64
import gzip
import json
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from capplan.app.procurement.build import Circumstances, build_report
from capplan.app.procurement.candidates import candidates_of
from capplan.core.economics.constraints import ReportLoad
from capplan.core.economics.decide import Answer, decide
from capplan.core.economics.evidence import Standards
from capplan.core.gpus.machines import LocalCurrency
from capplan.report.procurement.render import render_report
from capplan.report.procurement.types import Report
from capplan.shapes.plan import certain_gpus, read_plan
from capplan.specs import load_gpus
from capplan.specs.fitted import load_power_law
from capplan.specs.load import demand_without_load, read_load_file
from capplan.specs.prices import load_prices, read_price_section
from capplan.specs.rate_laws import load_rate_laws
from capplan.verbs.constraints import admitting_as_stated

EXAMPLES = Path(__file__).parents[3] / "examples"

# Fixed time and time per sample of a batch. [s]
SPEEDS = {
    "t4": (0.004, 0.0030),
    "l4": (0.003, 0.0012),
    "a10g": (0.003, 0.0011),
    "rtx-a5000": (0.003, 0.0010),
    "a100-sxm4-80gb": (0.002, 0.0004),
    "h100-sxm5-80gb": (0.002, 0.0002),
    "mi300x": (0.003, 0.0003),
}


CIRCUMSTANCES = Circumstances(
    today=date(2026, 11, 21),
    command="capplan report toynet",
    title="GPUs for toynet",
    power_law=load_power_law(),
    data_parallel=load_rate_laws().data_parallel,
)


def interval(value: float, low: float = 1.0, high: float = 1.0) -> dict[str, float]:
    return {"low": value * low, "expected": value, "high": value * high}


def plan_document(
    name: str = "toynet", *, batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32), mode: str = "inference"
) -> dict[str, Any]:
    gpus = load_gpus()
    fits = [
        _fit(gpus[gpu], batch, fixed_s + per_sample_s * batch)
        for gpu, (fixed_s, per_sample_s) in SPEEDS.items()
        for batch in batches
    ]
    return {
        "schema_version": 1,
        "capplan_version": "0",
        "model": {
            "name": name, "class": "Net", "params": 25_000_000, "buffers": 0, "macs_per_sample": 4_000_000_000,
            "flops_per_sample": 8_000_000_000, "weight_bytes": 100_000_000, "activation_peak_bytes": 1,
            "traffic_fixed_bytes": 50_000_000, "traffic_bytes_per_sample": 60_000_000, "uncounted": [],
            "input_bytes_per_sample": 602_112,
        },
        "workload": {
            "precision": "fp16", "mode": mode, "framework": "eager", "layout": "nchw", "torch": "2.11",
            "training": None,
        },
        "limits": {"utilization_fraction": 0.9, "max_latency_s": None, "min_throughput_per_s": None},
        "fits": fits,
        "rejections": [{
            "gpu": "jetson-nano-4gb", "gpu_name": "Jetson Nano", "batch": 32, "constraint": "memory",
            "reason": "memory: needs 5 GiB, 3 GiB may be filled", "needed": 5e9, "available": 3e9, "max_batch": 0,
            "min_gpus": 2,
        }],
        "assumptions": ["inputs already on the GPU"],
        "notes": [],
        "provenance": {"target": name, "versions": {"torch": "2.11"}, "calibration": "made up"},
    }  # fmt: skip


def _fit(gpu: Any, batch: int, latency_s: float) -> dict[str, Any]:
    return {
        "gpu": gpu.id, "gpu_name": gpu.name, "batch": batch, "status": "fits",
        "memory": {
            "peak_allocated_bytes": interval(1e8 + 1e7 * batch), "peak_reserved_bytes": interval(1.1e8 + 1e7 * batch),
            "total_bytes": interval(5e8 + 1e7 * batch), "usable_bytes": gpu.usable_bytes,
            "parts": {"weights": interval(1e8), "activations": interval(1e7 * batch)},
        },
        "max_batch": 1000, "recommended_batch": 32,
        "latency_s": {"bound": latency_s / 2, **interval(latency_s, 0.8, 1.25)},
        "throughput_per_s": {"bound": 2 * batch / latency_s, **interval(batch / latency_s, 0.8, 1.25)},
        "bound_by": "compute", "share_by_binding": {"compute": 1.0}, "host_copy_s": None, "calibration": "made up",
        "evidence": "measured", "evidence_reason": "500 timed steps on this GPU",
        "power_w": interval(gpu.tdp_w * (0.3 + 0.02 * batch), 0.8, 1.2),
        "joules_per_sample": interval(gpu.tdp_w * (0.3 + 0.02 * batch) * latency_s / batch, 0.8, 1.2),
        "power_evidence": "architecture measured",
        "notes": [],
    }  # fmt: skip


def stated_demand(path: Path) -> ReportLoad:
    """The only load of a file, with what its keys admit."""
    return admitting_as_stated(read_load_file(path), shown=str(path)).loads[0].demand


def made_answer(load: str) -> Answer:
    """The same decision as in the report, with all that it rests on."""
    gpus = load_gpus()
    prices = load_prices(gpus)
    plan = read_plan(plan_document(), where="toynet")
    demand = stated_demand(EXAMPLES / f"{load}.load.yaml")
    return decide(
        candidates_of(
            plan,
            gpus,
            power_law=load_power_law(),
            data_parallel=load_rate_laws().data_parallel,
            assumptions=demand.assumptions,
        ),
        demand=demand,
        rents=prices.hourly,
        purchases=prices.purchase,
        standards=Standards(certain_fits=certain_gpus(plan), today=date(2026, 11, 21)),
    )


def made_report(
    load: str | Path | None = "image-service",
    *,
    names: tuple[str, ...] = ("toynet",),
    mode: str = "inference",
    local: LocalCurrency | None = None,
) -> Report:
    """A report on made-up speeds: an example's load by its name, a load file, or none."""
    return _made_report(load, names, mode, local) if isinstance(load, Path) else _example_report(load, names)


@cache
def _example_report(load: str | None, names: tuple[str, ...]) -> Report:
    return _made_report(load, names, "training" if load == "training" else "inference")


def _made_report(
    load: str | Path | None, names: tuple[str, ...], mode: str, local: LocalCurrency | None = None
) -> Report:
    gpus = load_gpus()
    prices = load_prices(gpus)
    path = EXAMPLES / f"{load}.load.yaml" if isinstance(load, str) else load
    for section in read_load_file(path).prices if path else ():
        prices = prices.with_own(read_price_section(section, gpus, shown=str(path), origin=str(path)))
    return build_report(
        [read_plan(plan_document(name, mode=mode), where=name) for name in names],
        demand=stated_demand(path) if path else demand_without_load(),
        gpus=gpus,
        rents=prices.hourly,
        purchases=prices.purchase,
        circumstances=replace(CIRCUMSTANCES, local=local),
    )


def html_of(report: Report) -> str:
    page = render_report(report, ".html")
    assert isinstance(page, str)
    return page


def pdf_of(report: Report) -> bytes:
    content = render_report(report, ".pdf")
    assert isinstance(content, bytes)
    return content


def markdown_of(report: Report) -> str:
    text = render_report(report, ".md")
    assert isinstance(text, str)
    return text


def figures_of(page: str) -> dict[str, Any]:
    """Return what a page keeps compressed until its script reads it: figures of each model, rows and tables."""
    packed = page.split('id="figures">', 1)[1].split("<", 1)[0]
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def whole(page: str) -> str:
    """Return a page with the rows and tables that its script adds."""
    return page + "".join(figures_of(page)["tables"].values())
