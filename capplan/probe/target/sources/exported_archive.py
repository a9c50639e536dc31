"""Read the archive of a `.pt2` file without torch: its program as JSON, and what is left of it without its weights."""

import io
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

from capplan.core.json_fields import as_mapping
from capplan.errors import UsageError
from capplan.files import open_archive
from capplan.strict_json import LARGEST_TEXT_BYTES, read_json

_PROGRAM = re.compile(r"[^/]+/models/[^/]+\.json")
_WEIGHTS = "/model_weights_config.json"


def without_weights(path: Path) -> bytes:
    """Return an archive of the program alone, which `read_program` reads as it does the whole.

    Args:
        path: the `.pt2` file.

    Raises:
        UsageError: torch.export did not write it, or it is damaged.
    """
    read_program(path)
    made = io.BytesIO()
    with open_archive(path) as archive, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as kept:
        for name in archive.namelist():
            if _PROGRAM.fullmatch(name) or name.endswith(_WEIGHTS):
                with archive.open(name) as stream:
                    kept.writestr(zipfile.ZipInfo(name), stream.read(LARGEST_TEXT_BYTES + 1))
    return made.getvalue()


def read_program(path: Path) -> dict[str, Any]:
    """Read an archive's program, with its table of weights' files as "shared".

    Args:
        path: the `.pt2` file.

    Raises:
        UsageError: it is none that torch.export wrote, or damaged.
    """
    try:
        with open_archive(path) as archive:
            names = archive.namelist()
            models = [name for name in names if _PROGRAM.fullmatch(name)]
            if len(models) != 1:
                raise UsageError(f"{path} {_not_exported(names)}")
            program = as_mapping(_member(archive, models[0]), models[0])
            configs = [name for name in names if name.endswith(_WEIGHTS)]
            shared = [_member(archive, name)["config"] for name in configs]
            return {**program, "shared": {path: weight for config in shared for path, weight in config.items()}}
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged or no torch.export archive ({error}).") from error


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as stream:
        return read_json(stream.read(LARGEST_TEXT_BYTES + 1), allow_infinite=True)


def _not_exported(names: list[str]) -> str:
    if any(name.endswith("serialized_exported_program.json") for name in names):
        return "was written by torch before 2.8: save it again with a later torch.export.save."
    if any("aotinductor" in name for name in names):
        return "is a compiled AOTInductor package, made for one GPU: save the program with torch.export.save."
    if any(name.endswith("data.pkl") for name in names):
        return (
            "holds pickled weights or a pickled module, which only its own code can read: write the model with "
            "torch.export.save or torch.onnx.export."
        )
    return "is not an archive of one torch.export program, as torch.export.save writes it."
