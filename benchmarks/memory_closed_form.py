"""The closed form over batches against fresh traces at random batches: equal, byte for byte?

python benchmarks/memory_closed_form.py [--models 40] [--batches 10]
"""

import argparse
import hashlib
import random
import sys

from capplan.core.memory_curve import live_curve
from capplan.core.workload import Configuration
from capplan.errors import CapplanError
from capplan.probe.inputs import parse_request
from capplan.probe.target import load_target
from capplan.probe.trace import trace_target
from capplan.probe.zoo_timm import timm_names
from capplan.probe.zoo_torchvision import torchvision_names


def main() -> None:
    """Compare a sample of timm's and torchvision's models, chosen by a hash of their names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--batches", type=int, default=10)
    words = parser.parse_args()
    names = [f"timm:{name}" for name in timm_names()] + [f"torchvision:{name}" for name in torchvision_names()]
    names.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    equal = refused = 0
    for name in names[: words.models]:
        try:
            differing = differences(name, count=words.batches)
        except CapplanError as error:
            refused += 1
            print(f"{name}: not traced: {error}", flush=True)
            continue
        if differing is None:
            refused += 1
            print(f"{name}: does not grow evenly with the batch, and says so", flush=True)
            continue
        equal += not differing
        for batch, closed, fresh in differing:
            print(f"{name} at batch {batch}: closed form {closed}, fresh trace {fresh}", flush=True)
    answered = words.models - refused
    if not answered:
        sys.exit("no model could be compared")
    share = f"{100 * equal / answered:.1f} %"
    print(f"{equal} of {answered} models equal at {words.batches} random batches ({share}), {refused} without")


def differences(name: str, *, count: int) -> list[tuple[int, int, int]] | None:
    """List batches at which the peaks differ; None where there is no closed form."""
    target = load_target(name, request=parse_request())
    recording = trace_target(target).recording(Configuration())
    if recording.exact_batch is not None:
        return None
    generator = random.Random(name)
    curve = live_curve(recording)
    found = []
    for batch in generator.sample(range(1, 1025), count):
        fresh = trace_target(target, exact_batch=batch).recording(Configuration())
        pair = curve.peak_bytes(batch), live_curve(fresh).peak_bytes(batch)
        if pair[0] != pair[1]:
            found.append((batch, *pair))
    return found


if __name__ == "__main__":
    main()
