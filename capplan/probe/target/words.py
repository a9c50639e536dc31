"""Describe a target: its words on a command line, versions, a hash of its source."""

import hashlib
import inspect
import shlex
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from capplan.core.trace.types import Affine
from capplan.probe.inputs.grammar import BATCH, SELECTED_SHARE, InputRequest, InputSpec


def full_words(words: str, request: InputRequest) -> str:
    """Format the command-line words that name a model with its arguments and inputs."""
    options = [word for name, value in request.arguments for word in ("--arg", f"{name}={_literal(value)}")]
    options += [word for spec in request.inputs for word in ("--input", input_words(spec))]
    if request.size is not None:
        options += ["--input-size", "x".join(map(str, request.size))]
    if request.seq_len is not None:
        options += ["--seq-len", str(request.seq_len)]
    if request.inputs_from is not None:
        options += ["--inputs-from", request.inputs_from]
    options += [word for step in request.prepare for word in ("--prepare", step)]
    options += [word for pattern in request.freeze for word in ("--freeze", pattern)]
    if request.selected_share != SELECTED_SHARE:
        options += ["--selected-share", f"{request.selected_share:g}"]
    options += [option for option, is_set in (("--as-cpu", request.as_cpu), ("--grad", request.grad)) if is_set]
    if request.new_tokens is not None:
        options += ["--new-tokens", str(request.new_tokens)]
    return shlex.join([words, *options])


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def input_words(spec: InputSpec) -> str:
    """Format one input in the grammar of `--input`."""
    dims = "x".join(_dim_words(dim) for dim in spec.shape)
    dtype = "" if spec.dtype == "float32" else f"{spec.dtype}:"
    return f"{spec.name}={dtype}{dims}" if spec.name else f"{dtype}{dims}"


def _dim_words(dim: Affine) -> str:
    if dim == BATCH:
        return "N"
    return str(dim.constant) if not dim.per_sample else f"({dim.per_sample}N+{dim.constant})"


def versions_of(*distributions: str) -> dict[str, str]:
    """Return the installed versions of distributions; those that are not installed are left out."""
    found = {}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


_STEP_BYTES = 2**22
"""How much of a file is held in memory while it is hashed. [bytes]"""


def hash_files(paths: Iterable[Path]) -> str:
    """Hash files' contents, in order. [SHA-256, hexadecimal]"""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while content := file.read(_STEP_BYTES):
                digest.update(content)
    return digest.hexdigest()


def source_sha256(thing: Any) -> str | None:
    """Return the SHA-256 of the file that defines a function or class; None if it has no file."""
    try:
        return hash_files([Path(inspect.getfile(inspect.unwrap(thing)))])
    except (TypeError, OSError):
        return None
