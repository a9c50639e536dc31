"""Read and write small files of fitted numbers: the power of cards, price drift, pipelines and sweeps."""

from collections.abc import Mapping
from dataclasses import replace

from capplan.core.economics.evidence import PriceDrift
from capplan.core.origin import Origin
from capplan.core.pipelines.measured import GROUPS, GroupFactors, PipelineCalibration
from capplan.core.power import PowerConstants, PowerLaw, PowerNovelty
from capplan.core.records import NumberRange, as_plain
from capplan.core.sweep.overview import RateRange, SweepRates
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import Tree, dump_yaml, read_versioned, stated_number
from capplan.specs.values import RecordFile

ENERGY_FILE = "energy.yaml"


_ANY = NumberRange(low=-1e18, high=1e18)
"""Fitted numbers may be of any size and sign."""
_OLDER: Mapping[type, Mapping[str, object]] = {Origin: {"held_out_errors": {}}}
_POWER = RecordFile(
    kind=PowerLaw,
    shipped=ENERGY_FILE,
    what="a law of power",
    version=3,
    usual_range=_ANY,
    takes_defaults=False,
    older={**_OLDER, PowerLaw: {"widths": {}}, PowerConstants: {"density": None}},
    unwritten={"cap_w": None, "cards": {}},
    optional=frozenset(PowerNovelty),
)
load_power_law = _POWER.load


def dump_power_law(law: PowerLaw) -> str:
    """Write a law as YAML; the same law gives the same text."""
    return _POWER.dump(replace(law, architectures=dict(sorted(law.architectures.items()))))


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


load_sweep_rates = RecordFile(
    kind=SweepRates,
    shipped="sweeps.yaml",
    what="a file of rates of sweeps",
    usual_range=_ANY,
    takes_defaults=False,
    older=_OLDER,
    retired={SweepRates: ("runs",)},
    forms={SweepRates: lambda tree: {**tree.pop("rates", {}), **tree}},
    parsers={SweepRates: {"row_bytes": lambda ends: RateRange(low=ends[0], high=ends[1])}},
).load


PIPELINES_FILE = "pipelines.yaml"


def _grouped(row: Tree) -> Tree:
    """Return a GPU's row with its factors as one mapping."""
    return {"by_group": {name: value for name, value in row.items() if name in GROUPS}} | {
        name: value for name, value in row.items() if name not in GROUPS
    }


_PIPELINES = RecordFile(
    kind=PipelineCalibration,
    shipped=PIPELINES_FILE,
    what="a calibration of pipelines",
    usual_range=_ANY,
    takes_defaults=False,
    older=_OLDER,
    forms={GroupFactors: _grouped},
)
load_pipeline_calibration = _PIPELINES.load


def dump_pipeline_calibration(calibration: PipelineCalibration) -> str:
    """Write a calibration as YAML; the same calibration gives the same text."""
    document = as_plain(calibration)
    document["gpus"] = {
        name: {"capability": row["capability"], **row["by_group"]} for name, row in sorted(document["gpus"].items())
    }
    return dump_yaml({"schema_version": _PIPELINES.version, **document})
