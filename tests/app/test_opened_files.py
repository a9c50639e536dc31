"""What a model opens while it is built decides whether its kept trace still holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capplan.app.models import open_model
from capplan.app.trace_cache import OpenedFiles, TraceKey, files_behind, watched
from capplan.core.workload import Configuration
from capplan.probe.foreign.importing import load_code
from capplan.probe.inputs.grammar import ModelRequest


def opened_by(code: str) -> OpenedFiles:
    found = OpenedFiles()
    with watched(found):
        exec(code, {"os": os, "json": json, "Path": Path, "subprocess": subprocess, "sys": sys})
    return found


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("open('a.txt').close()", ["a.txt"]),
        ("Path('a.txt').read_bytes()", ["a.txt"]),
        ("os.close(os.open('a.txt', os.O_RDONLY))", ["a.txt"]),
        ("open(b'a.txt').close()", ["a.txt"]),
        ("open('link.txt').close()", ["a.txt"]),
        ("Path('b.txt').write_text('x')", []),
        ("open('b.txt', 'a').close()", []),
        ("Path('missing.txt').exists()", []),
        ("import decimal; open(decimal.__file__).close()", []),
    ],
)
def test_files_that_were_read_are_noted(
    code: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("x")
    Path("link.txt").symlink_to("a.txt")
    found = opened_by(code)
    assert [path.name for path in found.of_the_user()] == names
    assert not found.asked_outside


def test_a_file_that_was_looked_for_in_vain_is_noted(tmp_path: Path) -> None:
    found = OpenedFiles()
    with watched(found), pytest.raises(FileNotFoundError):
        (tmp_path / "later.txt").read_text()
    assert found.of_the_user() == [tmp_path / "later.txt"]


def test_packages_that_a_pth_file_adds_are_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .pth file puts the site-packages of another environment on the path; what lies there is installed."""
    packages = tmp_path / "other" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "borrowed_library.py").write_text("from torch import nn\nNet = nn.Identity\n")
    mine = tmp_path / "mine.py"
    mine.write_text("from borrowed_library import Net\n")
    monkeypatch.syspath_prepend(packages)
    opened = OpenedFiles()
    with watched(opened):
        load_code(str(mine))
    files = {path.name for path in (*files_behind(TraceKey(words=f"{mine}:Net")), *opened.of_the_user())}
    assert "mine.py" in files
    assert "borrowed_library.py" not in files


def test_another_process_is_noted_and_nothing_after_the_block() -> None:
    found = opened_by("subprocess.run([sys.executable, '-c', ''], check=True)")
    assert found.asked_outside
    before = set(found.paths)
    Path(__file__).read_text()
    assert found.paths == before


MODEL = """
from pathlib import Path
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(8, int(Path({config!r}).read_text()))
"""


@pytest.mark.slow
def test_a_model_that_reads_its_own_file_is_traced_anew_once_that_changes(tmp_path: Path) -> None:
    config, code = tmp_path / "width.txt", tmp_path / "net.py"
    code.write_text(MODEL.format(config=str(config)))
    counts = []
    for width in (8, 8, 80):
        config.write_text(str(width))
        model = open_model(ModelRequest(words=f"{code}:Net", inputs=("8",)))
        counts.append(model.trace([Configuration()]).parameter_count)
    assert counts == [72, 72, 720]  # 8 · width weights and width biases
