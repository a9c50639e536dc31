"""Set a process up that traces models for others: libraries loaded, one thread, classes that may be named."""

import contextlib

from capplan.errors import CapplanError


def load_libraries() -> None:
    """Import torch and the installed model libraries."""
    from capplan.probe.foreign.libraries import import_library, import_torchvision
    from capplan.probe.target.sources.transformers import import_transformers
    from capplan.probe.trace import tracer

    del tracer
    with contextlib.suppress(CapplanError):
        import_torchvision()
    with contextlib.suppress(CapplanError):
        import_library("timm")
    with contextlib.suppress(CapplanError):
        import_transformers()


def use_one_thread() -> None:
    """Make torch calculate in one thread, because many models may be traced at once on one machine."""
    import torch

    torch.set_num_threads(1)


def model_classes(model_type: str) -> frozenset[str]:
    """Return the names of the model classes that transformers lists for an architecture."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    from capplan.probe.target.sources.transformers import unknown_architecture

    if model_type not in CONFIG_MAPPING:
        raise unknown_architecture(model_type)
    found: set[str] = set()
    for name, mapping in vars(modeling_auto).items():
        if name.startswith("MODEL_") and name.endswith("_MAPPING_NAMES"):
            classes = mapping.get(model_type, ())
            found.update([classes] if isinstance(classes, str) else classes)
    return frozenset(found)
