"""Complete words in shells: GPU ids and names of models, found without importing torch."""

from collections.abc import Iterable

_SEPARATOR = ","


def complete_gpus(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that a GPU option may go on with, each with its name; after a comma, those of the next GPU."""
    from capplan.specs import load_gpus

    before, separator, last = incomplete.rpartition(_SEPARATOR)
    known = load_gpus()
    return [
        (f"{before}{separator}{gpu_id}", spec.name)
        for gpu_id, spec in known.items()
        if gpu_id.startswith(last.casefold())
    ]


def complete_models(incomplete: str) -> list[str]:
    """Return the library models that a model argument may go on with; shells add files by themselves."""
    from capplan.probe.target.names import source_names

    library, colon, name = incomplete.partition(":")
    if colon:
        known: Iterable[str] = source_names(library) if library in ("timm", "torchvision") else ()
        return sorted(f"{library}:{each}" for each in known if each.startswith(name))
    if not incomplete:
        return ["timm:", "torchvision:", "hf:"]
    every = source_names("torchvision") | source_names("timm")
    return sorted(each for each in every if each.startswith(incomplete))
