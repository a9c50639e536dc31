"""The kept outputs: one text file each in expected/."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

EXPECTED = Path(__file__).parent / "expected"


def kept_names() -> set[str]:
    """Return the names of the outputs that are kept."""
    return {str(path.relative_to(EXPECTED).with_suffix("")) for path in EXPECTED.rglob("*.txt")}


def kept(name: str) -> str:
    """Return a kept output; an empty text where there is none yet."""
    path = _path(name)
    return path.read_bytes().decode() if path.is_file() else ""


_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?:e[-+]?\d+)?(?![\w.])")


def portable(text: str) -> str:
    """Return a text with at most ten digits of every float: the last of sixteen differ between processors."""
    return _NUMBER.sub(_rounded, text)


def _rounded(found: re.Match[str]) -> str:
    digits = found[0].partition("e")[0].replace(".", "").lstrip("0")
    return repr(float(f"{float(found[0]):.10g}")) if len(digits) > 10 else found[0]


def difference(name: str, text: str) -> Sequence[str]:
    """Return the unified difference of a kept output to what comes out now, as lines; none where they are equal."""
    before, text = portable(kept(name)), portable(text)
    if before == text:
        return ()
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), text.splitlines(keepends=True), f"kept/{name}", f"now/{name}", n=2
    )
    return [line if line.endswith("\n") else f"{line}\n" for line in lines] or [f"{name}: ends of lines differ\n"]


def renew(name: str, text: str | None) -> None:
    """Keep an output; None removes it."""
    path = _path(name)
    if text is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(portable(text).encode())


def _path(name: str) -> Path:
    return EXPECTED / f"{name}.txt"
