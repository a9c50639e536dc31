"""Configuration files: which are read, which wins, and what is refused."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app
from capplan.cli.settings import in_force, load_settings
from capplan.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with both files, a folder below it to work in, and a configuration folder of the user's."""
    own = tmp_path / "config" / "capplan"
    own.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (own / "capplan.toml").write_text('precision = "fp16"\nsort = "cost"\nspecs = ["mine"]\n')
    folder = tmp_path / "project" / "below"
    folder.mkdir(parents=True)
    (folder.parent / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.capplan]\nprecision = "bf16"\ngpu = "l4"\n'
    )
    (folder.parent / "capplan.toml").write_text('gpu = ["t4", "l4"]\n[plan]\nsort = "memory"\nmax_price = 2\n')
    monkeypatch.chdir(folder)
    return folder


def test_the_nearest_file_wins_and_a_commands_table_over_it(project: Path) -> None:
    settings = load_settings()
    plan, report = in_force(settings, "plan"), in_force(settings, "report")
    assert {key: each.value for key, each in plan.items()} == {
        "precision": "bf16", "sort": "memory", "gpu": ("t4", "l4"), "max-price": 2,
        "specs": (str(project.parents[1] / "config" / "capplan" / "mine"),),
    }  # fmt: skip
    assert ("sort" in report, "max-price" in report) == (False, False)  # a report has no order, the price is a plan's
    assert plan["gpu"].file.name == "capplan.toml"
    assert plan["precision"].file.name == "pyproject.toml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpux = 1", "did you mean gpu"),
        ("gpu = 3", "gpu must be a text or a list of texts"),
        ("[plam]\nsort = 'cost'", "did you mean plan"),
        ("sort = ", "capplan.toml"),
        ("sort = []", "sort must be a text or a number"),
        ("utilization = true", "utilization must be a text or a number, not true"),
        ("torch = 2.10", "torch 2.1 may be 2.1 or 2.10; write it as text"),
        ("gpu = " + "[" * 100_000, "nested too deep"),
        ("#" + "x" * 1_000_000, "longer than 1,000,000 bytes"),
    ],
)
def test_what_no_option_takes_is_refused(project: Path, text: str, said: str) -> None:
    (project / "capplan.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_settings()


def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    monkeypatch.setenv("CAPPLAN_CONFIG", str(tmp_path / "pipe.toml"))
    with pytest.raises(UsageError, match="it is a pipe"):
        load_settings()


def test_a_word_without_end_is_cut_in_a_message(project: Path) -> None:
    (project / "capplan.toml").write_text(f"gpu = '{'x' * 1_000_000}'")
    done = CliRunner().invoke(app, ["plan", "resnet18"])
    assert done.exit_code == 2
    assert len(done.stderr) < 400


def test_one_file_can_be_named_or_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_CONFIG", "")
    assert load_settings() == ()
    (project / "other.toml").write_text("utilization = 0.5")
    monkeypatch.setenv("CAPPLAN_CONFIG", "other.toml")
    assert [(each.key, each.value) for each in load_settings()] == [("utilization", 0.5)]
    monkeypatch.setenv("CAPPLAN_CONFIG", "missing.toml")
    with pytest.raises(UsageError, match=r"cannot read missing\.toml"):
        load_settings()
