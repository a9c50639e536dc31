"""Read the names of the Hugging Face Hub: `Qwen/Qwen3-8B`, `hf:ORG/NAME@revision`, `ORG/NAME:Q4_K_M`."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from capplan.files import exists

_WORD = r"[A-Za-z0-9_](?:[\w.-]{0,94}[\w-])?"
_NAME = re.compile(
    rf"(?P<prefix>hf:|hf-hub:)?(?P<repository>{_WORD}/{_WORD})(?:@(?P<revision>[\w][\w./-]{{0,199}}))?"
    r"(?::(?P<file>[\w./-]{1,200}))?",
    re.ASCII,
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FORMAT = re.compile(r"(UD-)?(I?Q\d\w*|TQ\d_\d|B?F16|F32|FP16|MXFP4\w*)", re.IGNORECASE)
_SUFFIXES = frozenset(
    {".py", ".pt2", ".pt", ".pth", ".onnx", ".pkl", ".pickle", ".ckpt", ".safetensors", ".bin", ".json", ".gz", ".gguf",
     ".engine", ".plan", ".tflite", ".h5", ".pb", ".yaml", ".yml", ".txt", ".csv"}
)  # fmt: skip
"""Endings of files: such words name a file, whether it is there or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubName:
    """A name of the Hub: a repository, and what of it is meant.

    Attributes:
        repository: the organisation and the name, such as Qwen/Qwen3-8B.
        revision: a branch, tag or commit; None for what the repository's main branch holds.
        file: the number format, or the name, of one of its GGUF files; empty for none.
        is_marked: `hf:` or `hf-hub:` stands before the name, so that nothing else can be meant.
    """

    repository: str
    revision: str | None = None
    file: str = ""
    is_marked: bool = False

    def __str__(self) -> str:
        at = "" if self.revision is None else f"@{self.revision}"
        return f"{self.repository}{at}{':' if self.file else ''}{self.file}"

    @property
    def is_pinned(self) -> bool:
        """Return True if the revision is a commit, which never changes."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None


def parse_hub_name(words: str) -> HubName | None:
    """Return the name of the Hub that words are; None for anything else, what lies on this machine first."""
    if len(words) > 600:
        return None
    found = _NAME.fullmatch(words)
    if found is None or ".." in words or exists(words) or exists(words.removeprefix("hf:")):
        return None
    repository, file = found["repository"], found["file"] or ""
    if PurePosixPath(repository).suffix.lower() in _SUFFIXES:
        return None
    if file and not (_FORMAT.fullmatch(file) or file.lower().endswith(".gguf")):
        return None
    return HubName(repository=repository, revision=found["revision"], file=file, is_marked=found["prefix"] is not None)


def names_gguf(words: str) -> bool:
    """Return True if words name a GGUF file, or a repository of such by the ending that the Hub's own guide advises."""
    name = parse_hub_name(words)
    on_hub = name is not None and (bool(name.file) or name.repository.lower().endswith("-gguf"))
    return on_hub or words.lower().endswith(".gguf")
