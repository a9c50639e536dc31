"""What a file of a training framework says of a job, in the words of this program's options."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFile:
    """What was read of a framework's file.

    Attributes:
        release: The release whose keys and defaults are known.
        stated: What it says, by option.
        defaults: What the framework does where the file is silent, by option.
        searched: Of both what the question does not ask, or searches by itself.
        unmodelled: Keys with their values that change memory or time in ways that are not estimated.
        config: The model's configuration, where the file describes a model instead of naming it.
    """

    path: str
    framework: str
    release: str
    stated: Mapping[str, str]
    defaults: Mapping[str, str]
    searched: tuple[str, ...] = ()
    unmodelled: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
