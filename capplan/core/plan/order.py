"""The orders in which answers about GPUs are listed."""

from enum import StrEnum


class SortKey(StrEnum):
    """Orders of the GPUs in a plan."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    MEMORY = "memory"
    COST = "cost"
    PRICE = "price"
    ENERGY = "energy"
    NAME = "name"


class RowOrder(StrEnum):
    """Orders of the rows of a comparison; `ASKED` is the order in which models, formats and GPUs were named."""

    ASKED = "asked"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    MEMORY = "memory"
    COST = "cost"
    ENERGY = "energy"
