"""The state of a finished sweep inside a Parquet file without rows, so that the folder holds nothing else.

Readers such as polars take a folder for a dataset only if all of its files are Parquet files. While a sweep runs its
state lies in files of `_sweep/`; when it is complete they are packed into the metadata of `state.parquet`, which has
the columns of the table and no rows, and removed. The next run unpacks them.
"""

import base64
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from capplan.app.sweep import tables
from capplan.files import replace_whole

STATE_FOLDER, STATE_FILE, MANIFEST = "_sweep", "state.parquet", "manifest.json"
_META = "capplan_sweep_state"
_UNITS = "units-*.arrow"


def state_content(folder: Path, name: str) -> bytes:
    """Return a file of a sweep's state, from where it lies: in `_sweep/`, else packed.

    Args:
        folder: the results.
        name: the file's name.

    Raises:
        OSError: there is no such file.
    """
    path = folder / STATE_FOLDER / name
    if (folder / STATE_FOLDER / MANIFEST).exists():
        with contextlib.suppress(FileNotFoundError):  # a sweep that ended meanwhile has packed and removed it
            return path.read_bytes()
    packed = _packed(folder)
    if name not in packed:
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return packed[name]


def has_state(folder: Path) -> bool:
    """Return True if a folder holds the results of a sweep."""
    return (folder / STATE_FOLDER / MANIFEST).exists() or MANIFEST in _packed(folder)


def pack_state(folder: Path, *, workload: str) -> None:
    """Pack the state of a complete sweep; its lock stays, an empty file that readers skip.

    Args:
        folder: the results.
        workload: one of its partitions, in whose folder the file is written.
    """
    state = folder / STATE_FOLDER
    paths = [state / MANIFEST, *sorted(state.glob(_UNITS))]
    content = {path.name: base64.b64encode(path.read_bytes()).decode("ascii") for path in paths}
    target = folder / f"{tables.WORKLOAD}={workload}" / STATE_FILE
    replace_whole(target, tables.parquet_without_rows({_META: json.dumps(content, sort_keys=True)}))
    for path in folder.glob(f"{tables.WORKLOAD}=*/{STATE_FILE}"):
        if path != target:
            path.unlink(missing_ok=True)
    for path in paths:  # the manifest first: from then on the packed state is what counts
        path.unlink(missing_ok=True)


def unpack_state(folder: Path) -> None:
    """Write the packed state of a sweep back into files, where it was packed."""
    state = folder / STATE_FOLDER
    if (state / MANIFEST).exists():
        return
    packed = _packed(folder)
    for name in sorted(packed, key=lambda name: name == MANIFEST):  # the manifest last: it names the others
        replace_whole(state / name, packed[name])


def _packed(folder: Path) -> Mapping[str, bytes]:
    """Return the packed files by name; none where the state is not packed."""
    for path in folder.glob(f"{tables.WORKLOAD}=*/{STATE_FILE}"):
        text = tables.meta_of_parquet(path).get(_META)
        try:
            if text is not None:
                return {Path(name).name: base64.b64decode(content) for name, content in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError):  # damaged: it is none of ours
            continue
    return {}
