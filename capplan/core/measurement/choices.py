"""What may be chosen of a measurement: how a repetition is timed, and how the largest batch is searched."""

from enum import StrEnum


class TimingMethod(StrEnum):
    """How the ends of a repetition are found.

    `EVENT` records events in the device's queue and reads them once, after the last repetition; `SYNC` lets the
    host wait for the device around every repetition; `NAIVE` reads the host's clock without waiting, which is
    wrong wherever the device works behind a queue; `CLOCK` is the host's clock where there is no queue.
    """

    EVENT = "event"
    SYNC = "sync"
    NAIVE = "naive"
    CLOCK = "clock"


class BatchSearch(StrEnum):
    """How batches are tried: doubling to a failure and halving back, or one by one."""

    BINARY = "binary"
    SEQUENTIAL = "sequential"
