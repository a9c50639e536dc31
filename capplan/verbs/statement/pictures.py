"""The charts that a command writes beside its answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.report.charts.look import Drawing

PLOT = "FILE.svg|png|pdf|html"
"""What stands for the value of an option that names a chart's file."""


def check_pictures(*paths: Path | None) -> None:
    """Refuse, before anything is computed, a file that no chart can be written to.

    Args:
        paths: the files; None where no chart is asked for.

    Raises:
        UsageError: an extension that is no picture's, a folder that does not exist, or no package to draw pixels.
    """
    from importlib.util import find_spec

    from capplan.report.charts.picture import SUFFIXES

    for path in paths:
        if path is None:
            continue
        if path.suffix not in SUFFIXES:
            raise UsageError(f"{path}: plots are written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
        if not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {path.parent}.")
        for package in ("altair", "vl_convert"):
            if find_spec(package) is None:
                raise UsageError(f"{path}: plots need {package}; install it with pip install 'capplan[report]'.")


def pictures(drawings: "Mapping[Path, Drawing]") -> dict[Path, bytes]:
    """Return the contents of charts' files.

    Args:
        drawings: the charts by the files that they go to.
    """
    from capplan.report.charts.picture import picture

    return {path: picture(drawing, suffix=path.suffix) for path, drawing in drawings.items()}
