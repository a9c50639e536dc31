"""All that is known of one GPU: its spec, its architecture, and its prices."""

from dataclasses import dataclass

from capplan.core.gpus.prices import Price, PurchasePrice
from capplan.core.gpus.spec import Figure, GpuArchitecture, GpuSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSheet:
    """One GPU, its architecture, and its prices."""

    gpu: GpuSpec
    architecture: GpuArchitecture
    hourly: tuple[Price, ...]
    purchase: tuple[PurchasePrice, ...]

    @property
    def all_figures(self) -> dict[str, Figure]:
        """Return the figures of the GPU and of its architecture by name, as they are written."""
        shared = {f"architecture.{key}": figure for key, figure in self.architecture.figures.items()}
        return {**self.gpu.figures, **shared}
