"""Carry the training calibration of 2026-11-21 to the rates that GPUs are now believed to sustain.

    git show fb1f9cb:capplan/calibrations/training.yaml > old.yaml
    python benchmarks/carry_training.py old.yaml -o capplan/calibrations/training.yaml

Its 1,534 rows are of one GPU, the RTX 3090. Efficiencies are shares of a GPU's sustained rates, so that for this GPU
every estimate stays what it was when each efficiency is multiplied by the old rate over the new one. Others are
estimated from the new rates. `capplan calibrate fit --serves training` fits them anew; its traces take an hour of one
core.
"""

import argparse
from pathlib import Path
from typing import Any

import yaml

from capplan.core.latency import classes as kinds
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.roofline import PeakUse
from capplan.core.workload import Precision, Workload
from capplan.specs import load_gpus
from capplan.specs.calibration import SCHEMA_VERSION

GPU = "rtx-3090"
OLD_CLOCK, OLD_BANDWIDTH = 1.15, 1.0
"""The shares of print that the old model gave an RTX 3090: 1.15 of both arithmetic rates, all of the bandwidth."""

_PRODUCTS = (
    *kinds.CONVOLUTIONS, kinds.CONV_GROUPED_WIDE, kinds.LINEAR, kinds.BATCHED_MATMUL, kinds.ATTENTION,
    kinds.ATTENTION_GRADIENT, kinds.RECURRENT,
)  # fmt: skip


def main() -> None:
    """Write the carried file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    words = parser.parse_args()
    document = yaml.safe_load(words.old.read_text())
    rates = device_rates(load_gpus()[GPU], Workload(precision=Precision.AMP_FP16, torch_version=(1, 12)))
    assert isinstance(rates, DeviceRates)
    bandwidth = rates.bandwidth_bytes_per_s / rates.printed_bandwidth_bytes_per_s / OLD_BANDWIDTH
    for label, constants in document["classes"].items():
        use = PeakUse.HALF if is_product(label) else PeakUse.VECTOR
        share = float(rates.peaks_flops_per_s[use] / rates.printed_flops_per_s[use])
        constants["compute"] = _rounded(constants["compute"] * OLD_CLOCK / share)
        constants["bandwidth"] = _rounded(constants["bandwidth"] / bandwidth)
        constants["layout_passes"] = _rounded(constants["layout_passes"] * bandwidth)
    document["widths"] = {cell: _sides(width) for cell, width in document["widths"].items()}
    document["origin"]["command"] += "; carried to new rates by benchmarks/carry_training.py"
    document["schema_version"] = SCHEMA_VERSION
    words.output.write_text(
        yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    )


def is_product(label: str) -> bool:
    """Return True if a class runs on tensor cores under autocast; depthwise convolutions do not."""
    return any(label.startswith(name) for name in _PRODUCTS) and not kinds.is_depthwise(label)


def _sides(width: dict[str, Any]) -> dict[str, Any]:
    """Give both sides the old half-width; no GPU was held out, so that all spreads stay the guess that they were."""
    names = ("between_gpus", "between_sheets", "between_others", "between_other_sheets")
    between = dict.fromkeys(names, width["between_gpus"])
    return {
        "below": width["known"], "above": width["known"], **between,
        "rows": width["rows"], "coverage_fraction": width["coverage_fraction"],
    }  # fmt: skip


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


if __name__ == "__main__":
    main()
