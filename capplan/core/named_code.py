"""Decide whether words of a file name code to import: the one rule, which every reader of models in files asks."""

import re
from collections.abc import Iterable

LIBRARIES = ("torchvision", "timm", "hf", "hf-hub", "diffusers")
"""What may stand before a colon in a model's words without choosing code: libraries, whose own code runs."""


_DRIVE = re.compile(r"[A-Za-z]:(?=[\\/])")


def before_colon(words: str) -> tuple[str, str, str]:
    """Split a model's words at their first colon, as `str.partition` does, but for that of a Windows drive."""
    drive = words[:2] if _DRIVE.match(words) else ""
    before, colon, rest = words[len(drive) :].partition(":")
    return drive + before, colon, rest


def place_and_name(words: str) -> tuple[str, str]:
    """Split FILE.py:Name or package.module:Name at the last colon; the place is empty where no name is given."""
    where, _, name = words.rpartition(":")
    return ("", words) if len(where) == 1 and _DRIVE.match(words) else (where, name)


def names_code(words: str, *, inputs_from: str | None = None, prepare: Iterable[str] = ()) -> bool:
    """Return True if opening a model would import code that its words, inputs or preparation choose.

    What is not known to choose none does: a colon behind anything but a library, whatever the words end with.
    """
    if inputs_from or any(":" in step for step in prepare):
        return True
    kind, colon, _ = before_colon(words)
    return kind not in LIBRARIES if colon else words.endswith(".py")


def code_refusal(what: str, *, holder: str = "file") -> str:
    """Return the end of the sentence that refuses code named by data, after where it stands."""
    return f"{what} names code, which is not run for a {holder} of data; add ⟨allow-code⟩ if you trust it"
