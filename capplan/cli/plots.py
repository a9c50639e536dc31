"""`--plot FILE.svg|png|html`: where a chart goes."""

from pathlib import Path

from capplan.cli.output import write_atomically
from capplan.errors import UsageError


def check_plots(*paths: Path | None) -> None:
    """Refuse, before anything is computed, a file that no chart can be written to.

    Raises:
        UsageError: an extension that is no picture's, a folder that does not exist, or no package to draw pixels.
    """
    from capplan.report.charts.picture import SUFFIXES

    for path in paths:
        if path is None:
            continue
        if path.suffix not in SUFFIXES:
            raise UsageError(f"{path}: plots are written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
        if not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {path.parent}.")
        if path.suffix == ".png":
            _check_typst(path)


def _check_typst(path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("typst") is None:
        raise UsageError(f"{path}: .png needs typst; install it with pip install 'capplan[report]', or write .svg.")


def write_plot(svg: str, path: Path, *, title: str) -> None:
    """Write a chart whole or not at all.

    Raises:
        UsageError: it cannot be written.
    """
    from capplan.report.charts.picture import picture

    write_atomically(path, picture(svg, suffix=path.suffix, title=title))
