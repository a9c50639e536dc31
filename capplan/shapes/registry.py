"""All shapes by the name of their document."""

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
    "llm_serving",
    "llm_memory",
    "llm_plan",
    "llm_fleet",
    "llm_training",
)
"""The modules of this package that hold shapes, those that others use first."""


def shapes() -> dict[str, Shape]:
    """Return all shapes by the name of their document, the parts of each before it."""
    found: dict[str, Shape] = {}
    for module in MODULES:
        for value in vars(import_module(f"capplan.shapes.{module}")).values():
            if isinstance(value, Shape):
                found |= {part.name: part for part in value.parts()}
    return found
