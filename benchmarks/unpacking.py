"""Fit by how many kernels PyTorch unpacks quantised weights: `python benchmarks/unpacking.py [--write]`.

Published are whole seconds of an image by FLUX.1-dev in diffusers on an H100, with weights in 8 and 4 bits. torchao and
GGUF unpack a weight in operators one after the other, of which the first reads the packed weight and the others its
wide copy. Their number is what makes the estimated time the published one, rounded to a whole number. A format that
was not timed takes that of the format that it is unpacked like.

Times with weights offloaded to the host are not fitted: they judge, as `tests/data_acceptance` does with memory.
Needs diffusers. With --write the section `unpacking` of `capplan/calibrations/rates.yaml` is written.
"""

import argparse
from dataclasses import replace
from datetime import date

from capplan.app.gpu_choice import GpuRequest
from capplan.app.plan import PlanContext
from capplan.core.numbers import Interval
from capplan.core.pipelines.types import Offload
from capplan.core.workload import BatchChoice, Batches
from capplan.specs.folders import calibration_file
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections
from capplan.verbs.plan import PlanQuestion, plan_over
from capplan.verbs.statement.local import LocalContext

MODEL, GPU = "diffusers:black-forest-labs/FLUX.1-dev", "h100-sxm5-80gb"
PUBLISHED = {"int8_weight_only": (15, 26), "float8_weight_only": (15, 27), "q8_0": (15, 22), "q4_1": (23, 28)}
"""Seconds on the GPU, and with --offload model: derekl35/diffusers-quantization-benchmarks on the Hub, 2026-11-28."""
ALIKE = {"q4_0": "q4_1", "q4_k": "q4_1"}
WHOLE = ("int8_weight_only", "float8_weight_only")
"""Schemes that the text encoder had, too."""


def seconds(scheme: str, kernels: float, offload: str = "none") -> Interval:
    """Return the estimated time of an image with weights that so many kernels unpack. [s]"""
    context = PlanContext.of(GpuRequest(ids=(GPU,)))
    laws = replace(context.calibration.laws, unpacking={scheme: kernels})
    parts = {name: replace(part, laws=laws) for name, part in context.calibration.parts.items()}
    question = PlanQuestion(
        model=MODEL, gpus=(GPU,), batches=Batches(choice=BatchChoice.LISTED, sizes=(1,)), settings={"steps": 50},
        weights=scheme, part_settings={"text_encoder_2.weights": scheme} if scheme in WHOLE else {},
        offload=Offload(offload),
    )  # fmt: skip
    shared = replace(context, calibration=replace(context.calibration, laws=laws, parts=parts))
    return plan_over(question, LocalContext(), None, shared).fits[0].latency.latency_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the numbers into rates.yaml")
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    found: dict[str, float] = {}
    print("| scheme | seconds published | estimated | kernels | with offload | estimated |")
    print("| --- " * 6 + "|")
    for scheme, (published_s, offloaded_s) in PUBLISHED.items():
        one, two = (seconds(scheme, kernels).expected for kernels in (1.0, 2.0))
        found[scheme] = float(max(1, round(1 + (published_s - one) / (two - one))))
        here, moved = (
            f"{time.expected:.1f} ({time.low:.1f} to {time.high:.1f})"
            for time in (seconds(scheme, found[scheme], place) for place in ("none", "model"))
        )
        print(f"| {scheme} | {published_s} | {here} | {found[scheme]:.0f} | {offloaded_s} | {moved} |")
    found |= {scheme: found[like] for scheme, like in ALIKE.items()}
    if words.write:
        path = calibration_file(RATES_FILE)
        data = f"derekl35/diffusers-quantization-benchmarks: FLUX.1-dev on an H100, {len(PUBLISHED)} formats"
        origin = LawsOrigin(
            sections=("unpacking",), made=words.made, command="python benchmarks/unpacking.py --write", data=data
        )
        replace_sections(path, replace(load_rate_laws(path), unpacking=found), origin)


if __name__ == "__main__":
    main()
