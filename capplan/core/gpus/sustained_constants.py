"""Hold the fitted constants of `sustained`; written by `python benchmarks/sustained.py`, not by hand."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """How the sustained share of a printed rate falls with its density per watt, by chip family; "" is any other.

    Clocks are shares of the printed rate without a binding power limit, for players' cards and others. Spreads are
    logs: of GPUs left out among players' cards and others, and of a family left out.
    """

    clock_consumer: float
    clock_other: float
    slope: float
    capacity_flops_per_joule: Mapping[str, float]
    ceiling: Mapping[str, float]
    log_sd_consumer: float
    log_sd_other: float
    log_sd_unknown: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyShares:
    """Shares of printed bandwidth that copies reach by kind of memory, factors by architecture, and the log spread."""

    by_memory: Mapping[str, float]
    by_architecture: Mapping[str, float]
    log_sd: float


BURST_EXPONENT = {"half": 1.44, "single": 1.1}
HALF = PowerLaw(
    clock_consumer=1.045, clock_other=0.9769, slope=0.6595,
    capacity_flops_per_joule={
        "gp10x": 1.761e+11, "gp100": 2.912e+11, "gv100": 3.004e+11, "tu10x": 2.286e+11,
        "ga100": 6.414e+11, "ga10x": 3.034e+11, "ad10x": 4.909e+11, "gh100": 9.095e+11,
        "gb20x": 5.624e+11, "gb10x": 1.105e+12, "cdna1": 5.549e+11, "cdna2": 3.761e+11,
        "cdna3": 6.654e+11, "cdna4": 7.893e+11, "rdna3": 2.82e+11, "gaudi2": 6.716e+11,
        "gaudi3": 8.99e+11, "xe-hpg": 3.058e+11, "xe2-hpg": 5.105e+11, "": 4.362e+11,
    },
    ceiling={
        "": 1,
    },
    log_sd_consumer=0.0976, log_sd_other=0.135, log_sd_unknown=0.19,
)  # fmt: skip
SINGLE = PowerLaw(
    clock_consumer=1.008, clock_other=1.009, slope=0.6787,
    capacity_flops_per_joule={
        "gp10x": 5.244e+10, "gp100": 5.244e+10, "gv100": 6.557e+10, "tu10x": 6.557e+10,
        "ga100": 9.967e+10, "ga10x": 8.984e+10, "ad10x": 1.294e+11, "gh100": 1.294e+11,
        "gb20x": 1.405e+11, "gb10x": 1.405e+11, "cdna1": 9.967e+10, "cdna2": 1.123e+11,
        "cdna3": 1.294e+11, "cdna4": 1.925e+11, "rdna3": 1.294e+11, "gaudi2": 9.967e+10,
        "gaudi3": 1.294e+11, "xe-hpg": 1.123e+11, "xe2-hpg": 1.294e+11, "": 1.294e+11,
    },
    ceiling={
        "gp10x": 0.9429, "gp100": 0.9109, "gv100": 0.9398, "tu10x": 0.8975,
        "ga100": 0.9328, "ga10x": 0.787, "ad10x": 0.7726, "gh100": 0.8407,
        "gb20x": 0.7709, "gb10x": 0.8928, "cdna1": 0.8985, "cdna2": 0.906,
        "cdna3": 0.8985, "cdna4": 0.8985, "rdna3": 0.7949, "gaudi2": 0.8985,
        "gaudi3": 0.8985, "xe-hpg": 0.896, "xe2-hpg": 0.8985, "": 0.8985,
    },
    log_sd_consumer=0.191, log_sd_other=0.107, log_sd_unknown=0.125,
)  # fmt: skip
COPY = CopyShares(
    by_memory={
        "": 0.8344, "GDDR6": 0.8346, "GDDR6X": 0.8653, "GDDR7": 0.8256,
        "HBM2": 0.8625, "HBM2e": 0.8278, "HBM3": 0.8006, "HBM3e": 0.8372,
        "LPDDR4X": 0.8271, "LPDDR5": 0.83, "LPDDR5X": 0.7779,
    },
    by_architecture={
        "ada": 0.9688, "ada-geforce": 0.9996, "ada-l40": 1.037, "ampere": 1.019,
        "ampere-ga100": 0.9864, "ampere-geforce": 1.027, "apple-gpu": 0.9861, "blackwell": 0.9769,
        "blackwell-geforce": 1.012, "blackwell-ultra": 1.002, "cdna1": 0.9924, "cdna2": 1.017,
        "cdna3": 0.9752, "hopper": 0.9991, "rdna3": 0.9943, "turing": 0.948,
        "volta": 1.011, "xe-hpg": 0.9834,
    },
    log_sd=0.0637,
)  # fmt: skip
