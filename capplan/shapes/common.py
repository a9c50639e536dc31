"""Shapes that several answers share: what a document starts with, and the conditions of a question."""

from operator import attrgetter
from typing import Final, Literal

import msgspec

from capplan.core.workload import Training, Workload
from capplan.shapes.codec import SCHEMA_VERSION
from capplan.shapes.shape import Shape, Typed, figure, reads
from capplan.version import __version__

VERSIONED: Final = (figure("schema_version", reads(Literal[1], lambda _answer: SCHEMA_VERSION)),)
"""What a document starts with."""

SIGNED: Final = (*VERSIONED, figure("capplan_version", reads(str, lambda _answer: __version__)))
"""What a document starts with that says which capplan wrote it."""

TRAINING: Final = Shape(
    "TrainingDocument",
    Training,
    "How a training step is made up.",
    (figure("optimizer"), figure("checkpointing"), figure("accumulate")),
)


def in_words(path: str) -> Typed:
    """Return that a figure is an attribute as text, such as the value of an enum whose members a schema leaves open."""
    return reads(str, lambda value: str(attrgetter(path)(value)))


def torch_version(workload: Workload) -> str:
    """Return the PyTorch that is answered for, such as 2.9."""
    return "{}.{}".format(*workload.torch_version)


WORKLOAD: Final = Shape(
    "WorkloadDocument",
    Workload,
    "The conditions of a question, batch and GPU apart.",
    (
        figure("precision"),
        figure("mode", "configuration.mode"),
        figure("framework"),
        figure("layout"),
        figure("torch", torch_version),
        figure("training", TRAINING, default=None),
        figure("host", reads(str | None, lambda _workload, answer: getattr(answer, "host", None)), default=None),
    ),
)


def conditions_in_words(workload: msgspec.Struct) -> dict[str, str]:
    """Return the conditions of a document that are set, as text.

    Args:
        workload: A `WorkloadDocument`.
    """
    plain = msgspec.to_builtins(workload)
    return {key: _words(value) for key, value in plain.items() if value is not None}


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return str(value)
