"""Defaults of options from configuration files: the user's own, the project's pyproject.toml and capplan.toml.

A value on the command line or in the environment wins over all of them, a later file over an earlier one.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from capplan.errors import UnknownNameError, UsageError
from capplan.folders import config_folder

FILE_NAME = "capplan.toml"
VARIABLE = "CAPPLAN_CONFIG"
"""The environment variable that names the only configuration file to read; empty for none."""

Value: TypeAlias = str | int | float | bool | tuple[str, ...]

LISTS = frozenset({"gpu", "provider", "region", "specs", "prices", "vendor", "arch", "where"})
SCALARS = frozenset(
    {"batch", "precision", "framework", "layout", "torch", "utilization", "max-price", "min-memory", "priced",
     "max-latency", "min-throughput", "sort", "color"}
)  # fmt: skip
KEYS = tuple(sorted(LISTS | SCALARS))
"""Options whose defaults may be configured, without their dashes."""
_PATHS = frozenset({"specs", "prices"})
COMMANDS = ("plan", "compare", "memory", "estimate", "report", "analyze")
"""Commands that take defaults from configuration files; each may have a table of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The default of an option, for one command or for all, and the file that it comes from."""

    key: str
    value: Value
    file: Path
    command: str | None = None


def load_settings(folder: Path | None = None) -> tuple[Setting, ...]:
    """Read the settings in force, the strongest last.

    Args:
        folder: where the search for the project's files starts; the current folder if left out.

    Raises:
        UsageError: a file cannot be read, or holds what no option takes.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        return _read(Path(named), table=()) if named else ()
    own = config_folder() / FILE_NAME
    found = list(_read(own, table=())) if own.is_file() else []
    for project in _project_files((folder or Path.cwd()).resolve()):
        found += _read(project, table=("tool", "capplan") if project.name == "pyproject.toml" else ())
    return tuple(found)


def _project_files(start: Path) -> list[Path]:
    """Return the nearest pyproject.toml and capplan.toml of a folder and those above it."""
    found = []
    for name in ("pyproject.toml", FILE_NAME):
        nearest = next((each / name for each in (start, *start.parents) if (each / name).is_file()), None)
        found += [nearest] if nearest is not None else []
    return found


def _read(path: Path, *, table: tuple[str, ...]) -> tuple[Setting, ...]:
    try:
        content: object = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}.") from error
    for name in table:
        content = content.get(name, {}) if isinstance(content, Mapping) else {}
    if not isinstance(content, Mapping):
        raise UsageError(f"{path}: {'.'.join(table)} must be a table.")
    return tuple(setting for key, value in content.items() for setting in _settings(path, str(key), value))


def _settings(path: Path, key: str, value: object) -> list[Setting]:
    if isinstance(value, Mapping):
        if key not in COMMANDS:
            raise UnknownNameError("table", key, COMMANDS, hint=f"{path} may hold {', '.join(COMMANDS)}.")
        return [_setting(path, str(name), each, command=key) for name, each in value.items()]
    return [_setting(path, key, value, command=None)]


def _setting(path: Path, key: str, value: object, *, command: str | None) -> Setting:
    name = key.replace("_", "-")
    if name not in KEYS:
        raise UnknownNameError("key", name, KEYS, hint=f"{path} may set {', '.join(KEYS)}.")
    return Setting(key=name, value=_value(path, name, value), file=path, command=command)


def _value(path: Path, key: str, value: object) -> Value:
    if key in LISTS:
        items = value if isinstance(value, list) else [value]
        texts = [each for each in items if isinstance(each, str)]
        if len(texts) < len(items):
            raise UsageError(f"{path}: {key} must be a text or a list of texts, not {value!r}.")
        return tuple(str(path.parent / each) if key in _PATHS else each for each in texts)
    if not isinstance(value, str | int | float | bool):
        raise UsageError(f"{path}: {key} must be a text or a number, not {value!r}.")
    return value


def in_force(settings: tuple[Setting, ...], command: str) -> dict[str, Setting]:
    """Return the settings of a command by key: the strongest file's, and in a file those of the command's own table."""
    found: dict[str, Setting] = {}
    for setting in settings:
        kept = found.get(setting.key)
        if setting.command not in (None, command):
            continue
        if kept is None or kept.file != setting.file or setting.command is not None:
            found[setting.key] = setting
    return found
