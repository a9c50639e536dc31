"""Read how far prices move as they age."""

from capplan.core.economics.drift import PriceDrift
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file
from capplan.specs.yaml.strict import read_yaml

SCHEMA_VERSION = 1
DRIFT_FILE = "prices.yaml"


def load_price_drift() -> PriceDrift:
    """Read the spread of rents and of purchases after a year.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or a spread is missing or out of range.
    """
    where = f"calibrations/{DRIFT_FILE}"
    document = read_yaml(calibration_file(DRIFT_FILE), shown=where)
    if document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a table of price drift of schema_version {SCHEMA_VERSION}.")
    rents, purchases = (_sigma(document.get(name), f"{where}: {name}") for name in ("rents", "purchases"))
    return PriceDrift(rent_sigma=rents, purchase_sigma=purchases)


def _sigma(row: object, where: str) -> float:
    sigma = row.get("sigma") if isinstance(row, dict) else None
    if isinstance(sigma, bool) or not isinstance(sigma, int | float) or not 0 <= sigma <= 3:
        raise SpecError(f"{where}.sigma must be a number from 0 to 3.")
    return float(sigma)
