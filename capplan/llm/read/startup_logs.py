"""Read what vLLM logged about memory when it started: CSV files, plain or compressed, one start a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capplan.errors import SpecError
from capplan.llm.core.memory_fit import StartupLog
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.tables import read_rows

REQUIRED = ("model", "tp", "pp", "activation_memory_gib", "non_torch_forward_gib")
_ELEMENT_BYTES = {"torch.float32": 4, "float32": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupLogs:
    """The logs of a file that can be used, and how many rows of each unknown model were left out."""

    logs: tuple[StartupLog, ...]
    unknown_models: Mapping[str, int]


def read_startup_logs(path: Path, *, batched_tokens: int = 8192, max_sequences: int = 1024) -> StartupLogs:
    """Read start-up logs whose models the catalogue knows.

    Args:
        path: A CSV with the columns model, tp, pp, activation_memory_gib and non_torch_forward_gib, and perhaps
            dtype, cuda_graph_actual_gib, max_num_batched_tokens and max_num_seqs.
        batched_tokens: Tokens of one step where no column states them.
        max_sequences: Running sequences where no column states them.

    Raises:
        UsageError: The file cannot be read or lacks a column.
    """
    logs: list[StartupLog] = []
    unknown: dict[str, int] = {}
    for line, row in enumerate(read_rows(path, required=REQUIRED, what="a table of start-up logs"), start=2):
        model = find_in_catalogue(row["model"])
        if model is None:
            unknown[row["model"]] = unknown.get(row["model"], 0) + 1
            continue
        try:
            logs.append(
                StartupLog(
                    architecture=model.architecture,
                    tensor=int(row["tp"]),
                    pipeline=int(row["pp"]),
                    element_bytes=_ELEMENT_BYTES.get(row.get("dtype", ""), 2),
                    max_sequences=int(row.get("max_num_seqs") or max_sequences),
                    batched_tokens=int(row.get("max_num_batched_tokens") or batched_tokens),
                    activation_bytes=_gib(row["activation_memory_gib"]),
                    other_bytes=_gib(row["non_torch_forward_gib"]),
                    graph_bytes=_gib(row["cuda_graph_actual_gib"]) if row.get("cuda_graph_actual_gib") else None,
                )
            )
        except ValueError as error:
            raise SpecError(f"{path}, line {line}: {error}.") from error
    return StartupLogs(logs=tuple(logs), unknown_models=unknown)


def _gib(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError(f"{text!r} is not a size in GiB")
    return value * 2**30
