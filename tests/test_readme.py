"""The README's worked example is what the program prints. Renew it with `python tests/test_readme.py`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(
    r"(?<=<!-- example -->\n```text\n)\$ (?P<command>capplan [^\n]+)\n(?P<output>.*?)(?=```)", re.DOTALL
)


def example_output(command: str) -> str:
    words = [sys.executable, "-c", "from capplan.cli.main import main; main()", *shlex.split(command)[1:]]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.zoo
def test_the_worked_example_is_what_the_program_prints() -> None:
    found = EXAMPLE.search(README.read_text())
    assert found
    assert example_output(found["command"]) == found["output"]


def test_every_command_named_in_the_readme_exists() -> None:
    named = set(re.findall(r"^capplan ([a-z]+)", README.read_text(), re.MULTILINE))
    assert {"plan", "analyze", "trace", "gpus"} <= named
    for name in sorted(named):
        assert "Usage" in example_output(f"capplan {name} --help")


if __name__ == "__main__":
    text = README.read_text()
    README.write_text(
        EXAMPLE.sub(lambda found: f"$ {found['command']}\n{example_output(found['command'])}", text, count=1)
    )
