"""Read and write small files of fitted numbers: the power of cards, price drift, pipelines and sweeps."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from capplan.core.economics.evidence import PriceDrift
from capplan.core.origin import Origin
from capplan.core.pipelines.measured import GROUPS, GroupFactors, PipelineCalibration
from capplan.core.power import PowerLaw, PowerNovelty
from capplan.core.records import NumberRange, as_plain
from capplan.core.sweep.overview import RateRange, SweepRates
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import Tree, dump_yaml, read_versioned, stated_number
from capplan.specs.values import YamlRecordReader

ENERGY_FILE = "energy.yaml"


class _FittedReader(YamlRecordReader):
    """Reads fitted numbers, which may be of any size and sign."""

    usual_range = NumberRange(low=-1e12, high=1e12)
    takes_defaults = False
    older = MappingProxyType({Origin: {"held_out_errors": {}}})


class _PowerReader(_FittedReader):
    shipped = ENERGY_FILE
    what = "a law of power"
    version = 3
    unwritten = MappingProxyType({"cap_w": None, "cards": {}})
    older = MappingProxyType({**_FittedReader.older, PowerLaw: {"widths": {}}})
    optional = frozenset(PowerNovelty)


def load_power_law(path: Path | None = None) -> PowerLaw:
    """Read the law of power.

    Args:
        path: A file that `benchmarks/energy.py` wrote, None for the one in force.

    Raises:
        SpecError: The file is missing, is not YAML, has another schema, or lacks a key.
    """
    return _PowerReader.load(PowerLaw, path)


def dump_power_law(law: PowerLaw) -> str:
    """Write a law as YAML; the same law gives the same text."""
    return _PowerReader.dump(replace(law, architectures=dict(sorted(law.architectures.items()))))


DRIFT_SCHEMA_VERSION = 1
DRIFT_FILE = "prices.yaml"


def load_price_drift() -> PriceDrift:
    """Read the spread of rents and of purchases after a year.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or a spread is missing or out of range.
    """
    where = f"calibrations/{DRIFT_FILE}"
    what = "a table of price drift"
    document = read_versioned(calibration_file(DRIFT_FILE), what=what, version=DRIFT_SCHEMA_VERSION, shown=where)
    rents, purchases = (
        stated_number(document.get(name), "sigma", f"{where}: {name}", low=0, high=3) for name in ("rents", "purchases")
    )
    return PriceDrift(rent_sigma=rents, purchase_sigma=purchases)


class _RatesReader(_FittedReader):
    shipped = "sweeps.yaml"
    what = "a file of rates of sweeps"
    version = 1
    retired = MappingProxyType({SweepRates: ("runs",)})
    forms = MappingProxyType({SweepRates: lambda tree: {**tree.pop("rates", {}), **tree}})
    parsers = MappingProxyType({SweepRates: {"row_bytes": lambda ends: RateRange(low=ends[0], high=ends[1])}})


def load_sweep_rates() -> SweepRates:
    """Read the rates of sweeps.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    return _RatesReader.load(SweepRates)


PIPELINES_FILE = "pipelines.yaml"


def _grouped(row: Tree) -> Tree:
    """Return a GPU's row with its factors as one mapping."""
    return {"by_group": {name: value for name, value in row.items() if name in GROUPS}} | {
        name: value for name, value in row.items() if name not in GROUPS
    }


class _PipelineReader(_FittedReader):
    shipped = PIPELINES_FILE
    what = "a calibration of pipelines"
    version = 1
    forms = MappingProxyType({GroupFactors: _grouped})


def load_pipeline_calibration(path: Path | None = None) -> PipelineCalibration:
    """Read the calibration of pipelines.

    Args:
        path: a file that `benchmarks/pipelines.py` wrote, None for the one in force.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    return _PipelineReader.load(PipelineCalibration, path)


def dump_pipeline_calibration(calibration: PipelineCalibration) -> str:
    """Write a calibration as YAML; the same calibration gives the same text."""
    document = as_plain(calibration)
    document["gpus"] = {
        name: {"capability": row["capability"], **row["by_group"]} for name, row in sorted(document["gpus"].items())
    }
    return dump_yaml({"schema_version": _PipelineReader.version, **document})
