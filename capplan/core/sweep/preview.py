"""What a sweep would take, before it runs: cells, traces, processor time and space on disk."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The lowest and the highest of several measurements of a rate, or what follows from them."""

    low: float
    high: float

    def __add__(self, other: "Span") -> "Span":
        return Span(low=self.low + other.low, high=self.high + other.high)

    def times(self, count: int) -> "Span":
        """Return what a number of like things takes."""
        return Span(low=self.low * count, high=self.high * count)


TRACE_S = Span(low=0.56, high=1.98)
"""Processor time of tracing a model in one configuration. [s]

Low: 12 small models (torchvision:resnet*, timm:mobilenetv3_*) in two configurations, with traces made less with traces
kept (24.9 - 11.4 s, 2026-11-23). 29 models of timm and torchvision took 0.95 s. High: 16 models of
`benchmarks/sweep_speed.py --cold`, starting and planning included.
"""
PLANNED_PAIR_S = Span(low=0.19, high=0.29)
"""Processor time of opening a model for a workload, whatever the number of cells. [s]

This and `PLANNED_CELL_S` are a least-squares line (0.25 s + 0.26 ms a cell) through the four runs with 66 models in
the table of docs/sweeps.md, less 8 s of starting. Low and high are 0.77 and 1.17 times it, so that they hold those
runs, the ones with 33 and 1,500 models, and one with 300 models.
"""
PLANNED_CELL_S = Span(low=0.20e-3, high=0.31e-3)
"""Processor time of one more GPU and batch of an opened model. [s]"""
SERVED_CELL_S = Span(low=1.66e-3, high=1.84e-3)
"""Processor time of a cell of a served language model. [s]

Two runs of `llm:qwen3-*` (30 models) on 132 GPUs at three concurrencies, 11,880 cells: 21.0 s less 1.3 s of starting,
and 21.9 s with starting (2026-11-23).
"""
START_S = Span(low=1.3, high=8.0)
"""Processor time of starting and reading specs: of a run that had nothing to compute, and on a loaded machine. [s]"""
ROW_BYTES = Span(low=28.0, high=145.0)
"""Space of a row on disk: of 11,880 rows of served language models, and of rows of `benchmarks/sweep_scale.py`, whose
made-up figures compress badly; 126,720 rows of other models took 48. [bytes]"""
FILE_BYTES = Span(low=28e3, high=28e3)
"""Space of a Parquet file's schema and statistics: a file of 8 rows has 28.5 kB. [bytes]"""
STATE_BYTES = Span(low=36e3, high=36e3)
"""Space of the file without rows that holds a folder's state: 35.8 kB beside 6 rows. [bytes]"""
TRACE_BYTES = Span(low=16e3, high=16e3)
"""Space of a trace in the cache: the mean of 1,500 models of timm and torchvision. [bytes]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPreview:
    """Counts of what a sweep asks for and of what is left to compute, and an estimate of what that takes.

    `batches` are those of all workloads together. `cells` are rows of the whole table, in `files`; the folder holds
    `kept_cells` of them. Those `to_plan` and `to_serve` are left; `pairs` are models and workloads to plan.
    `models_to_trace` of them need `traces`, one a configuration, of which `kept_traces` are in the cache; of
    `traced_models` all are. `unknown` are the reasons why names stand for no model; their rows will be failures.
    """

    folder: str
    models: int
    gpus: int
    workloads: int
    batches: int
    cells: int
    kept_cells: int
    files: int
    pairs: int
    to_plan: int
    to_serve: int
    traced_models: int
    models_to_trace: int
    traces: int
    kept_traces: int
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing_traces(self) -> int:
        """Traces that would be made."""
        return self.traces - self.kept_traces

    @property
    def cpu_s(self) -> Span:
        """Processor time of what is left, over all cores. [s]"""
        return (
            START_S
            + TRACE_S.times(self.missing_traces)
            + PLANNED_PAIR_S.times(self.pairs)
            + PLANNED_CELL_S.times(self.to_plan)
            + SERVED_CELL_S.times(self.to_serve)
        )

    @property
    def result_bytes(self) -> Span:
        """Space of the whole results folder. [bytes]"""
        return ROW_BYTES.times(self.cells) + FILE_BYTES.times(self.files) + STATE_BYTES

    @property
    def trace_bytes(self) -> Span:
        """Space of the traces that would be added to the cache. [bytes]"""
        return TRACE_BYTES.times(self.missing_traces)
