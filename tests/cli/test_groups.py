"""Groups of options stand in a command's help as their options, and reach the command as one value."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from capplan.cli.groups import with_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option("--width", "-w", help="In metres.")] = 3
    deep: Annotated[bool, typer.Option("--deep")] = False


def command() -> tuple[typer.Typer, list[object]]:
    app, seen = typer.Typer(), []

    @app.command()
    @with_groups
    def build(*, name: Annotated[str, typer.Argument()], size: Size, count: int = 1) -> None:
        """Build something."""
        seen.append((name, size, count))

    return app, seen


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["wall"], ("wall", Size(), 1)),
        (["wall", "-w", "5", "--deep", "--count", "2"], ("wall", Size(width=5, deep=True), 2)),
    ],
)
def test_a_group_is_handed_over_whole(words: list[str], expected: object) -> None:
    app, seen = command()
    assert CliRunner().invoke(app, words).exit_code == 0
    assert seen == [expected]


def test_help_shows_the_options_where_the_group_stands() -> None:
    app, _ = command()
    shown = CliRunner().invoke(app, ["--help"], env={"NO_COLOR": "1", "TERM": "dumb"}).stdout
    places = [shown.index(words) for words in ("Build something", "--width", "In metres", "--deep", "--count")]
    assert places == sorted(places)
