"""Complete default configs of transformers: values that an architecture needs, and parts that must agree.

A default config describes no published model. Some leave open what every checkpoint sets, and composite ones put the
defaults of two parts together that were never meant for each other. Only default configs are completed, and each
completion gives way to an argument of the user's; a config file is taken as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from capplan.probe.transformers.architectures import architecture
from capplan.probe.transformers.completions import Content


def completed(kind: str, content: Content) -> Iterator[tuple[str, Any]]:
    """Yield the dotted arguments that an architecture's default config needs in addition to its content."""
    yield from _agreeing(content, "")
    for name, value in architecture(kind).completions.items():
        yield name, value(content) if callable(value) else value


def _agreeing(content: Content, prefix: str) -> Iterator[tuple[str, Any]]:
    """Make vision parts output the width that text parts take."""
    text, vision = content.get("text_config"), content.get("vision_config")
    if isinstance(text, Mapping) and isinstance(vision, Mapping) and "hidden_size" in text:
        for key in ("out_hidden_size", "text_hidden_size"):
            if key in vision and vision[key] != text["hidden_size"]:
                yield f"{prefix}vision_config.{key}", text["hidden_size"]
    for key, part in content.items():
        if isinstance(part, Mapping) and key.endswith("_config"):
            yield from _agreeing(part, f"{prefix}{key}.")
