"""What every fuzzed command must do: end as documented, in one sentence, without running or writing anything."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from capplan.cli.main import app
from tests.cli.conftest import NET
from tests.limits import within

DOCUMENTED = (0, 1, 2, 3, 4)
LONGEST_S = 20.0
"""Time of this process that no refusal comes near, whatever the machine. [s]"""

Check = Callable[..., Result]


class Watch:
    """Counts what data must never cause: processes, programs, and files opened for writing outside a folder."""

    def __init__(self) -> None:
        self.allowed: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed is None:
            return
        if event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "socket.connect"):
            self.seen.append(event)
        if event == "open" and isinstance(arguments[0], str) and _writes(arguments[1], arguments[2]):
            path = os.path.abspath(arguments[0])  # noqa: PTH100 - resolving would open folders in a hook
            if not path.startswith((str(self.allowed), "/dev/null")) and "/__pycache__/" not in path:
                self.seen.append(f"open {path}")


def _writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


@pytest.fixture(scope="session")
def watch() -> Watch:
    return Watch()


@pytest.fixture
def check(watch: Watch, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Check]:
    """Run `capplan` in this process, and hold it to the rules; of its own it may write into its cache alone."""
    home = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("CAPPLAN_CACHE", str(home / "cache"))

    def run(*words: object) -> Result:
        watch.allowed, watch.seen = home, []
        try:
            with within(cpu_s=LONGEST_S):
                result = CliRunner().invoke(app, [str(word) for word in words])
        finally:
            watch.allowed = None
        told = (words, result.output[-2000:])
        assert result.exception is None or isinstance(result.exception, SystemExit), (told, result.exc_info)
        assert result.exit_code in DOCUMENTED, told
        assert "Traceback" not in result.output, told
        assert not set(result.output) & set("\x1b\x00\x07\x9b\u202e"), told
        assert result.exit_code != 2 or result.stderr.strip(), told
        assert not watch.seen, (told, watch.seen)
        return result

    return run


NETS = """
from torch import nn

class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.recurs = nn.GRU(16, 8, batch_first=True)

    def forward(self, x):
        return self.recurs(self.layer(x))[0]
"""


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Trace files of a convolutional network, of one that attends and recurs, and of a training step."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "nets.py").write_text(NETS)
    attends = (f"{folder / 'nets.py'}:Attends", "--input", "x=4x16")
    wanted = {
        "net": (NET, "--input", "x=3x32x32"),
        "attends": attends,
        "trained": (*attends, "--train", "--precision", "amp-fp16"),
    }
    paths = []
    for name, words in wanted.items():
        path = folder / f"{name}.trace.json"
        result = CliRunner().invoke(app, ["trace", *words, "-o", str(path)])
        assert result.exit_code == 0, result.output
        paths.append(path)
    return paths
