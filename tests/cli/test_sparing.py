"""Options that are left out cost nothing, and those given are converted as ever."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [[], ["-q"], ["--vendor=AMD"], ["--format=csv"]])
def test_listing_gpus_converts_only_what_is_no_text(words: list[str]) -> None:
    code = (
        "import sys\nfrom capplan.cli.main import app\n"
        f"try:\n    app({['gpus', *words]!r})\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not {"torch", "pandas", "numpy"} & loaded
    assert ("pydantic" in loaded) == ("--format=csv" in words)
