"""Read configuration files of other programs as keys with values: YAML, JSON, TOML, and a shell script's arguments.

Nothing in them is run, and no variable of this process is put into them.
"""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from capplan.errors import SpecError
from capplan.files import read_file
from capplan.specs.strict_yaml import YAML_LOADER
from capplan.strict_json import JsonError, read_json

LARGEST_FILE_BYTES = 1_000_000
"""Largest configuration that is read. [bytes]"""
_MOST_KEYS, _MOST_DEPTH = 10_000, 30
SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
_SUFFIXES = {
    ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml", **dict.fromkeys(SCRIPTS, "arguments"),
}  # fmt: skip
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}$]*))?\}|\$(\w+)")
_FLAG = re.compile(r"--([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_SETTING = re.compile(r"\+{0,2}([A-Za-z_][\w.]*)=(.*)|([a-z][a-z-]*):([a-z_]+)", re.DOTALL)
"""What a command takes without dashes: key=value as Hydra's and OmegaConf's, and tyro's choice:value."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_ENDS = (")", "&&", "||", "|", ";", "&", "\n")


def read_foreign(path: Path) -> dict[str, str]:
    """Return the values of a file by their paths of keys, as text: true, false, none, numbers, lists with commas.

    Raises:
        SpecError: It cannot be read, is of another kind, or is too large.
    """
    form = _SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise SpecError(f"{path}: a framework's file is one of {', '.join(_SUFFIXES)}, by its suffix.")
    try:
        text = read_file(path, at_most=LARGEST_FILE_BYTES + 1).decode()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: is not UTF-8 (byte {error.start}).") from error
    if len(text) > LARGEST_FILE_BYTES:
        raise SpecError(f"{path}: is longer than {LARGEST_FILE_BYTES:,} bytes, the most that is read.")
    if form == "arguments":
        # The options of a script's commands, variables that it sets itself put in; the last of equals counts.
        try:
            words = list(_lexer(text.replace("\\\n", " ")))
        except ValueError as error:
            raise SpecError(f"{path}: is not a shell script: {str(error).lower()}.") from error
        variables: dict[str, str] = {}
        found: dict[str, str] = {}
        for name, value in _options(words, variables, depth=0):
            found[name] = value
        return found
    tree = _parsed(path, text, form)
    if not isinstance(tree, dict):
        raise SpecError(f"{path}: the top level must be keys with values.")
    found = dict(_flat(tree, "", path))
    if len(found) > _MOST_KEYS:
        raise SpecError(f"{path}: has more than {_MOST_KEYS:,} keys, the most that are read.")
    return found


def _parsed(path: Path, text: str, form: str) -> Any:
    try:
        if form == "json":
            return read_json(text)
        if form == "toml":
            return tomllib.loads(text)
        depth = 0
        for event in yaml.parse(text, Loader=YAML_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise SpecError(f"{path}: anchors and aliases (&, *) are not read; write the values out.")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_DEPTH:
                raise SpecError(f"{path}: is nested too deeply.")
        return yaml.load(text, Loader=YAML_LOADER)
    except JsonError as error:
        raise SpecError(f"{path} {error}.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{path}: is not {form.upper()}: {error}.") from error
    except (yaml.YAMLError, ValueError) as error:
        line = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise SpecError(f"{path}: is not YAML{where}: {line}.") from error


def _flat(tree: Mapping[Any, Any], prefix: str, path: Path, depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > _MOST_DEPTH:  # JSON and TOML
        raise SpecError(f"{path}: is nested too deeply.")
    for key, value in tree.items():
        where = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{where}.", path, depth + 1)
        else:
            yield where, _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(_text(item) for item in value if not isinstance(item, dict | list))
    return str(value)


class _Script(StringIO):
    """A script whose comments end before the end of their line, which ends a command, too."""

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # typeshed's base is of bytes
        line = super().readline(size)
        if line.endswith("\n"):
            self.seek(self.tell() - 1)
        return line


def _lexer(text: str) -> shlex.shlex:
    lexer = shlex.shlex(_Script(text), posix=True, punctuation_chars="\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    return lexer


def _options(words: list[str], variables: dict[str, str], *, depth: int) -> Iterator[tuple[str, str]]:
    """Yield what commands take: options with their values, and settings that follow the command's name."""
    pending: str | None = None
    values: list[str] = []
    in_command = depth > 0
    for word in (*words, "\n"):
        assigned, setting, flag = _ASSIGNMENT.fullmatch(word), _SETTING.fullmatch(word), _FLAG.fullmatch(word)
        ends = word in _ENDS or not word.strip()
        # a list's further values are names; what follows a number is an argument of its own
        more = not values or bool(_NAME.fullmatch(values[-1]) and _NAME.fullmatch(word))
        if pending is not None and not flag and not setting and not ends and more:
            values.append(_filled(word, variables))
            continue
        if pending is not None:
            yield pending, ",".join(values) or "true"
        pending, values = None, []
        if ends:
            in_command = depth > 0
        elif flag is not None:
            if flag[2] is None:
                pending = flag[1]
            else:
                yield flag[1], _filled(flag[2], variables)
        elif "--" in word and any(map(str.isspace, word)) and depth < 3:
            inner = assigned[2] if assigned else word  # options that stand in one quoted text
            yield from _options(inner.split(), variables, depth=depth + 1)
        elif setting is not None and in_command:
            yield setting[1] or setting[3], _filled(setting[2] or setting[4] or "none", variables).strip("[]")
        elif assigned is not None and not assigned[2].startswith("("):
            variables[assigned[1]] = _filled(assigned[2], variables)
        elif assigned is None and word not in ("export", "local", "declare", "then", "do", "else", "exec"):
            in_command = True


def _filled(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with the variables that the script sets to plain values; others stay as they are written."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        return variables.get(name, found[2] if found[2] is not None else found[0])

    return _VARIABLE.sub(value, text)
