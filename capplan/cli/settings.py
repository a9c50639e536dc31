"""Defaults of options from configuration files: the user's own, the project's pyproject.toml and capplan.toml.

A value on the command line or in the environment wins over all of them, a later file over an earlier one.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias, get_args

from capplan.errors import UnknownNameError, UsageError
from capplan.files import config_folder, is_file, read_file
from capplan.verbs.statement.options import Door, Field
from capplan.verbs.statement.registry import CONFIGURABLE, SPEC_READERS, find_verb

FILE_NAME = "capplan.toml"
VARIABLE = "CAPPLAN_CONFIG"
"""The environment variable that names the only configuration file to read; empty for none."""

LARGEST_FILE_BYTES = 1_000_000
"""Largest configuration file that is read; a pyproject.toml of a large project has some 30 kB. [bytes]"""

Value: TypeAlias = str | int | float | bool | tuple[str, ...]


_COLOR = "color"
"""The one setting that is about the terminal, not about a question."""
_SPECS = "specs"
"""The one setting that every command takes which reads GPUs or prices: own ones hold wherever these are."""


@cache
def settable(command: str) -> Mapping[str, Field | None]:
    """Return the settings that a command takes, by their names; None for the one about the terminal."""
    if command in SPEC_READERS:
        return {_SPECS: settable("plan")[_SPECS]}
    fields = find_verb(command).fields_at(Door.CONFIG)
    return {**{field.key: field for field in fields}, _COLOR: None}


@cache
def all_settable() -> Mapping[str, Field | None]:
    """Return every setting of any command, by name, in the order of the alphabet."""
    found = {key: field for command in CONFIGURABLE for key, field in settable(command).items()}
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefault:
    """The default of an option, for one command or for all, and the file that it comes from."""

    key: str
    value: Value
    file: Path
    command: str | None = None


def load_settings(folder: Path | None = None) -> tuple[StoredDefault, ...]:
    """Read the settings in force, the strongest last."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return _read(Path(named), table=()) if named else ()
    own = config_folder() / FILE_NAME
    found = list(_read(own, table=())) if is_file(own) else []
    for project in _project_files((folder or Path.cwd()).resolve()):
        found += _read(project, table=("tool", "capplan") if project.name == "pyproject.toml" else ())
    return tuple(found)


def _project_files(start: Path) -> list[Path]:
    """Return the nearest pyproject.toml and capplan.toml of a folder and those above it."""
    found = []
    for name in ("pyproject.toml", FILE_NAME):
        nearest = next((place / name for place in (start, *start.parents) if is_file(place / name)), None)
        found += [nearest] if nearest is not None else []
    return found


def _read(path: Path, *, table: tuple[str, ...]) -> tuple[StoredDefault, ...]:
    try:
        read = read_file(path, at_most=LARGEST_FILE_BYTES)
        if len(read) > LARGEST_FILE_BYTES:
            raise UsageError(f"{path} is longer than {LARGEST_FILE_BYTES:,} bytes, the most that is read.")
        content: object = tomllib.loads(read.decode())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    except RecursionError as error:
        raise UsageError(f"{path}: its lists or tables are nested too deep.") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}.") from error
    for name in table:
        content = content.get(name, {}) if isinstance(content, Mapping) else {}
    if not isinstance(content, Mapping):
        raise UsageError(f"{path}: {'.'.join(table)} must be a table.")
    return tuple(setting for key, value in content.items() for setting in _settings(path, str(key), value))


def _settings(path: Path, key: str, value: object) -> list[StoredDefault]:
    if isinstance(value, Mapping):
        if key not in CONFIGURABLE:
            raise UnknownNameError("table", key, CONFIGURABLE, hint=f"{path} may hold {', '.join(CONFIGURABLE)}.")
        return [_setting(path, str(name), item, command=key) for name, item in value.items()]
    return [_setting(path, key, value, command=None)]


def _setting(path: Path, key: str, value: object, *, command: str | None) -> StoredDefault:
    name = key.replace("_", "-")
    known = all_settable() if command is None else settable(command)
    if name not in known:
        raise UnknownNameError("key", name, known, hint=f"{path} may set {', '.join(known)}.")
    return StoredDefault(key=name, value=_value(path, name, value, known[name]), file=path, command=command)


def _value(path: Path, key: str, value: object, field: Field | None) -> Value:
    if field is not None and field.is_list:
        items = value if isinstance(value, list) else [value]
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) < len(items):
            raise UsageError(f"{path}: {key} must be a text or a list of texts, not {value!r}.")
        is_path = any(Path in get_args(kind) for kind in field.kinds)
        return tuple(str(path.parent / text) if is_path else text for text in texts)
    if not isinstance(value, str | int | float | bool):
        raise UsageError(f"{path}: {key} must be a text or a number, not {value!r}.")
    if isinstance(value, bool) and (field is None or bool not in field.kinds):  # the library of commands reads it as 1
        raise UsageError(f"{path}: {key} must be a text or a number, not {str(value).lower()}.")
    if isinstance(value, float) and field is not None and field.option.words is not None:
        field.option.words.read(value, f"{path}: {key}")  # refuses what a text would say and a number cannot
    return value


def in_force(settings: tuple[StoredDefault, ...], command: str) -> dict[str, StoredDefault]:
    """Return the settings of a command by key: the strongest file's, and in a file those of the command's own table."""
    found: dict[str, StoredDefault] = {}
    for setting in settings:
        kept = found.get(setting.key)
        if setting.command not in (None, command) or setting.key not in settable(command):
            continue
        if kept is None or kept.file != setting.file or setting.command is not None:
            found[setting.key] = setting
    return found
