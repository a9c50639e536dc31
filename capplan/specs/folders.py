"""Where specs, prices and calibrations lie: those that come with capplan, and the user's own."""

import os
from pathlib import Path

from capplan.errors import SpecError
from capplan.files import config_folder, is_dir, is_file

BUILT_IN = "built-in"
ARCHITECTURES = "architectures"
PRICES = "prices"
CPUS = "cpus"
ENVIRONMENT_VARIABLE = "CAPPLAN_SPECS"
PRICES_VARIABLE = "CAPPLAN_PRICES"
CALIBRATIONS_VARIABLE = "CAPPLAN_CALIBRATIONS"
MEASURED_VARIABLE = "CAPPLAN_MEASURED"


def built_in_folder() -> Path:
    """Return the folder of the specs that come with capplan: inside the package, or next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "gpu_specs"
    return installed if installed.is_dir() else package.parent / "gpu_specs"


def price_folder() -> Path:
    """Return the folder of the price list in force: the one that CAPPLAN_PRICES names, else the built-in one.

    Raises:
        SpecError: CAPPLAN_PRICES names no folder.
    """
    return _folder_named_by(PRICES_VARIABLE) or built_in_folder() / PRICES


def has_own_price_list() -> bool:
    """Return True if CAPPLAN_PRICES names the price list in force, in the place of built-in and fetched prices."""
    return bool(os.environ.get(PRICES_VARIABLE))


def calibration_file(name: str) -> Path:
    """Return the calibration file of a name: from the folder that CAPPLAN_CALIBRATIONS names, else the built-in one.

    A folder need not hold every file; the built-in ones remain in force for those that it lacks.

    Raises:
        SpecError: CAPPLAN_CALIBRATIONS names no folder.
    """
    own = _folder_named_by(CALIBRATIONS_VARIABLE)
    if own is not None and (own / name).is_file():
        return own / name
    return Path(__file__).resolve().parents[1] / "calibrations" / name


def _folder_named_by(variable: str) -> Path | None:
    named = os.environ.get(variable)
    if not named:
        return None
    if not is_dir(named):
        raise SpecError(f"{variable} names {named}, which is not a folder.")
    return Path(named)


def own_folder() -> Path:
    """Return where the user's own specs lie without being named: gpu_specs in capplan's configuration folder."""
    return config_folder() / "gpu_specs"


def own_measured(pattern: str) -> tuple[Path, ...]:
    """Return what a team measured: of the folder that CAPPLAN_MEASURED names the files that fit a pattern.

    Without it they are those of `measured` in the user's configuration folder, where there is one.

    Raises:
        SpecError: CAPPLAN_MEASURED names no folder.
    """
    named = os.environ.get(MEASURED_VARIABLE)
    folder = Path(named) if named else config_folder() / "measured"
    if named and not is_dir(folder):
        raise SpecError(f"{MEASURED_VARIABLE} names {folder}, which is no folder.")
    return tuple(sorted(folder.glob(pattern))) if is_dir(folder) else ()


def own_overlays() -> tuple[Path, ...]:
    """Return the user's own specs that no option names, lowest first: the config folder, then CAPPLAN_SPECS.

    CAPPLAN_SPECS holds folders or files, parted like PATH.
    """
    config = own_folder()
    named = [Path(part) for part in os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep) if part]
    return (*([config] if _holds_specs(config) else []), *named)


def spec_files(overlay: Path) -> list[Path]:
    """Return the GPU files of an overlay, which is a folder or one file.

    Raises:
        SpecError: it is neither, or the folder holds nothing that is read.
    """
    if is_dir(overlay):
        for stray in overlay.glob("*.yml"):
            raise SpecError(f"{stray}: is not read; a spec file ends in .yaml.")
        if not _holds_specs(overlay):
            raise SpecError(f"{overlay}: holds no spec files (*.yaml).")
        return sorted((*overlay.glob("*.yaml"), *(overlay / CPUS).glob("*.yaml")), key=lambda path: path.name)
    if overlay.suffix != ".yaml" or not is_file(overlay):
        raise SpecError(f"{overlay}: is neither a folder of specs nor a .yaml file.")
    return [overlay]


def _holds_specs(folder: Path) -> bool:
    places = (folder, folder / ARCHITECTURES, folder / PRICES, folder / CPUS)
    try:
        return any(next(place.glob("*.yaml"), None) for place in places)
    except PermissionError:  # another user's folder, which may not be looked into
        return False
