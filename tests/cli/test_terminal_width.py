"""What commands show in terminals of 80 and 60 columns: no line is wider, and every figure of a pipe is there."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.nightly import mostly_nightly

pytestmark = pytest.mark.slow

WIDTH = 80
NARROW = 60
COMMANDS = (
    ("gpus",),
    ("gpus", "show", "t4"),
    ("prices", "--gpu", "l4"),
    ("plan", "TRACE", "--batch", "8"),
    ("estimate", "TRACE", "--gpu", "l4", "--explain"),
    ("llm", "estimate", "qwen3-32b", "--gpu", "h100-sxm5-80gb", "--tp", "2"),
)
MORE_COMMANDS = (
    ("gpus", "compare", "t4", "l4", "h100-pcie-80gb"),
    ("config",),
    ("plan", "TRACE", "--all"),
    ("memory", "TRACE", "--gpu", "l4"),
    ("analyze", "TRACE"),
    ("llm", "models"),
    ("llm", "memory", "qwen3-32b", "--gpu", "h100-sxm5-80gb", "--tp", "2"),
)
"""What lays its tables out as the others do."""


def shown_in_terminal(*words: str, width: int = WIDTH) -> list[str]:
    """Return the lines that a command writes to a terminal of so many columns."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    command = [sys.executable, "-m", "capplan", *words]
    with subprocess.Popen(
        command, stdout=inner, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env={**kept, "NO_COLOR": "1"}
    ) as process:
        os.close(inner)
        answer = _read_all(outer)
        assert process.stderr is not None
        errors = process.stderr.read().decode()
    assert process.returncode == 0, errors
    return answer.decode().splitlines()


def _read_all(descriptor: int) -> bytes:
    """Read a terminal until the command has closed it; Linux then answers with an error."""
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            piece = b""
        if not piece:
            os.close(descriptor)
            return b"".join(pieces)
        pieces.append(piece)


@pytest.mark.parametrize(
    "words", [*COMMANDS, *(pytest.param(words, marks=pytest.mark.nightly) for words in MORE_COMMANDS)], ids=" ".join
)
def test_no_line_is_wider_than_the_terminal(words: tuple[str, ...], net_trace: Path) -> None:
    lines = shown_in_terminal(*(str(net_trace) if word == "TRACE" else word for word in words))
    assert lines
    # an address without a blank cannot be folded
    assert [line for line in lines if len(line) > WIDTH and " " in line.strip()] == []


@pytest.mark.parametrize(
    "command",
    mostly_nightly(
        ["plan", "measure", "trace", "llm plan", "llm train estimate", "gpus", "serve"],
        daily=["plan", "llm plan", "serve"],
    ),
)
@pytest.mark.parametrize("width", [NARROW, pytest.param(WIDTH, marks=pytest.mark.nightly)])
def test_help_keeps_to_a_narrow_terminal(command: str, width: int) -> None:
    lines = shown_in_terminal(*command.split(), "--help", width=width)
    assert lines[0].startswith("Usage: ")
    assert [line for line in lines if len(line) > width] == []


def test_a_pipe_gets_whole_rows() -> None:
    command = [sys.executable, "-m", "capplan", "gpus", "compare", "t4", "l4", "h100-pcie-80gb", "a100-pcie-40gb"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert max(map(len, piped.splitlines())) > WIDTH
    assert {word for line in piped.splitlines() for word in line.split() if word[:1].isdigit()} <= {
        word for line in shown_in_terminal(*command[3:]) for word in line.split()
    }
