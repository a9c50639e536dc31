"""The fixed world that golden outputs are made in: a folder of inputs, the data of tests/fixtures, one day."""

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from capplan.cli.main import app
from capplan.version import __version__
from examples.renew import DAY

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
INPUTS = (HERE / "inputs", ROOT / "examples")
"""Folders whose files lie beside the commands: traces of small nets, and the loads and saved plans of the examples."""

_STEERING = re.compile(r"CAPPLAN_\w+|HF_\w+|XDG_\w+|(?:NO|FORCE|CLI)_?COLOR\w*|COLUMNS|LINES|TERM|PYTHONPATH|TZ")
"""Environment variables that would change an answer."""


@contextlib.contextmanager
def world() -> Iterator[Path]:
    """Stand in a new folder that holds the inputs, where nothing of the user or the machine is seen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for source in INPUTS:
            shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        kept = {variable: value for variable, value in os.environ.items() if not _STEERING.fullmatch(variable)}
        with patch.dict(os.environ, {**kept, **_settings(folder)}, clear=True), contextlib.chdir(folder):
            yield folder


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "SOURCE_DATE_EPOCH": DAY,
        "CAPPLAN_CALIBRATIONS": str(FIXTURES / "calibrations"),
        "CAPPLAN_PRICES": str(FIXTURES / "prices"),
        "CAPPLAN_CACHE": "off",
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "HF_HOME": str(folder / ".huggingface"),
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm",
    }


@dataclass(frozen=True)
class Answered:
    """What a command did."""

    exit_code: int
    stdout: str
    stderr: str


class _Stream(io.TextIOWrapper):
    """A stream in memory that may say to be a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def text(self) -> str:
        buffer: Any = self.buffer
        return buffer.getvalue().decode().replace("\r\n", "\n")


def run(words: Sequence[str], *, columns: int | None = None) -> Answered:
    """Run a command in this process.

    Args:
        words: the command without `capplan`.
        columns: the width of the terminal that it writes to; None for a pipe.
    """
    out, errors = _Stream(is_terminal=columns is not None), _Stream(is_terminal=False)
    environment = {} if columns is None else {"COLUMNS": str(columns), "LINES": "50"}
    with (
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["capplan", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        try:
            app(list(words), prog_name="capplan")
        except SystemExit as ended:
            code = ended.code
    return Answered(code if isinstance(code, int) else int(code is not None), out.text, errors.text)


def transcript(command: str) -> str:
    """Run a command and return it with all that it printed and its exit code.

    Args:
        command: words without `capplan`; `80>` before them stands for a terminal of 80 columns.
    """
    width, _, rest = command.rpartition("> ") if re.match(r"\d+> ", command) else ("", "", command)
    answered = run(shlex.split(rest), columns=int(width) if width else None)
    ending = f"[exit {answered.exit_code}]\n" if answered.exit_code else ""
    errors = "".join(f"! {line}\n" for line in answered.stderr.splitlines())
    prompt = f"{width}> " if width else "$ "
    return masked(f"{prompt}capplan {rest}\n{_ended(answered.stdout)}{errors}{ending}")


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n[no newline at the end]\n"


_TIMINGS = re.compile(r'computed in .* rows/s|"(elapsed_s|rows_per_s)": [\d.]+|(?<=^elapsed_s,).*')
"""How long a sweep took."""
_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")


def masked(text: str) -> str:
    """Return a text without what differs between runs and releases: folders, capplan's version, spelling of bounds.

    A bound of 0 is written as 0 or 0.0, after which module was imported first: Python keeps one of two equal types.
    """
    text = text.replace(str(Path.cwd()), "FOLDER").replace(str(ROOT), "ROOT")
    text = re.sub(r"((?:imum\"|Of\"|\bge|\bgt|\ble|\blt)(?:: ?|=)-?\d+)\.0(?!\d)", r"\1", text)
    text = _TIMINGS.sub(lambda found: _NUMBER.sub("N", found[0]).replace("N ms", "N s"), text)
    text = re.sub(r'("capplan_version": ?)"[^"]*"', r'\1"VERSION"', text)
    return re.sub(rf"(?<![\d.]){re.escape(__version__)}(?![\d.]\d|\d)", "VERSION", text)
