"""A measurement request as data, so that it can be sent to another process."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from capplan.core.workload import Framework, Layout, Precision, TimingMethod, Workload
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure.point import Rules
from capplan.probe.measure.timing import StopRule, WarmUpRule


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementJob:
    """A model under conditions on a device, at batches to be named one by one.

    `allowed_bytes` limits what may be allocated, `reserve_fraction` leaves that share of what is available free;
    both None: no limit but the device's. `gpu` is the id of the device's spec, `threads` what
    PyTorch computes with on the host.
    """

    model: ModelRequest
    precision: Precision = Precision.FP32
    framework: Framework = Framework.EAGER
    layout: Layout = Layout.NCHW
    device: str = "cpu"
    gpu: str | None = None
    threads: int | None = None
    rules: Rules = field(default_factory=Rules)
    allowed_bytes: int | None = None
    reserve_fraction: float | None = None
    command: str = ""

    @property
    def workload(self) -> Workload:
        """Return the conditions, torch's version aside: it is the one at hand."""
        return Workload(precision=self.precision, framework=self.framework, layout=self.layout)


def job_to_json(job: MeasurementJob) -> str:
    return json.dumps(asdict(job))


def job_from_json(text: str) -> MeasurementJob:
    document: dict[str, Any] = json.loads(text)
    rules = document.pop("rules")
    model: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document.pop("model").items()
    }
    return MeasurementJob(
        model=ModelRequest(**model),
        precision=Precision(document.pop("precision")),
        framework=Framework(document.pop("framework")),
        layout=Layout(document.pop("layout")),
        rules=Rules(
            warm_up=WarmUpRule(**rules.pop("warm_up")),
            stop=StopRule(**rules.pop("stop")),
            method=TimingMethod(method) if (method := rules.pop("method")) else None,
            **rules,
        ),
        **document,
    )
