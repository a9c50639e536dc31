"""All shapes by the name of their document."""

from collections.abc import Iterator
from importlib import import_module

from capplan.shapes.shape import Shape

MODULES = (
    "common",
    "plan",
    "comparison",
    "memory",
    "analysis",
    "gpus",
    "estimate",
    "pipelines",
    "validation",
    "sweep",
    "saved",
    "observed",
    "acceptance",
    "llm_serving",
    "llm_memory",
    "llm_plan",
    "llm_fleet",
    "llm_scale",
    "llm_training",
    "procurement",
    "measurement",
)
"""The modules of this package that hold shapes, those that others use first."""


def all_shapes() -> Iterator[Shape]:
    """Yield all shapes, the parts of each before it; a module is imported when its first shape is due."""
    for module in MODULES:
        for value in vars(import_module(f"capplan.shapes.{module}")).values():
            if isinstance(value, Shape):
                yield from value.parts()


def shape_named(name: str) -> Shape | None:
    """Return the shape of the document of this name, or None; later modules are not imported for it."""
    return next((shape for shape in all_shapes() if shape.name == name), None)


def shapes() -> dict[str, Shape]:
    """Return all shapes by the name of their document."""
    return {shape.name: shape for shape in all_shapes()}
