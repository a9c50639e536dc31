import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "line.py"
    path.write_text("from torch import nn\n\ndef make(width=3):\n    return nn.Linear(4, width)\n")
    return f"{path}:make"


def kept(run: Run) -> list[dict[str, object]]:
    rows = json.loads(run("cache", "--json").stdout)["traces"]
    assert isinstance(rows, list)
    return rows


def test_a_cache_that_is_a_file_is_refused(run, monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path / "file"))
    done = run("cache")
    assert (done.exit_code, "is not a folder" in done.stderr) == (2, True)


@pytest.mark.slow
def test_what_was_traced_is_shown_and_cleared(run: Run, model: str) -> None:
    assert kept(run) == []
    assert run("analyze", model, "--input", "4").exit_code == 0
    assert run("analyze", model, "--input", "4", "--arg", "width=5").exit_code == 0
    rows = kept(run)
    assert [row["options"] for row in rows] == [["--input", "4"], ["--arg", "width=5", "--input", "4"]]
    assert {row["model"] for row in rows} == {model}
    shown = run("cache").stdout
    assert shown.startswith("2 traces, ")
    assert "--arg width=5" in shown
    assert run("cache", "clear", model).stdout == "forgot 2 traces\n"
    assert kept(run) == []


def test_clearing_a_model_that_is_not_kept_is_an_error(run: Run) -> None:
    result = run("cache", "clear", "resnet50")
    assert result.exit_code == 2
    assert "no trace of 'resnet50' is kept" in result.stderr
    assert run("cache", "clear").stdout == "forgot 0 traces\n"


def test_a_cache_that_is_off_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    result = run("cache")
    assert result.exit_code == 2
    assert "CAPPLAN_CACHE is off" in result.stderr
