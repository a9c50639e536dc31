"""Read tables of single timed kernels, and distinguish them from those of whole steps."""

from pathlib import Path

from capplan.core.calibrate.kernels import MeasuredKernel, MeasuredOperator
from capplan.errors import UsageError
from capplan.specs.measured import kernels_fp32 as measured_kernels_fp32
from capplan.specs.measured import kernels_llm as measured_kernels_llm
from capplan.tables import columns_of, read_rows


def holds_kernels(path: Path) -> bool:
    """Return True if the columns are those of single kernels, not of whole steps; False if the file cannot be read."""
    try:
        columns = _columns(path)
    except UsageError:
        return False
    return _is_fp32(columns) or columns >= measured_kernels_llm.COLUMNS


def read_kernels(path: Path) -> tuple[MeasuredKernel | MeasuredOperator, ...]:
    """Read a thinned selection: what fits an architecture's efficiencies without outweighing whole models.

    Raises:
        UsageError: unreadable, or a table of other kernels.
    """
    try:
        select = measured_kernels_fp32.select if _is_fp32(_columns(path)) else measured_kernels_llm.select
        return tuple(select(read_rows(path)))
    except (KeyError, ValueError) as error:
        raise UsageError(f"cannot read kernels from {path}: {error}.") from error


def _is_fp32(columns: frozenset[str]) -> bool:
    return columns >= measured_kernels_fp32.COLUMNS


def _columns(path: Path) -> frozenset[str]:
    return columns_of(path) if path.name.endswith(".csv.gz") else frozenset()
