"""Make what the README and the tutorials show, and the example plans and reports, anew with the data that ships now.

Run `python examples/renew.py` after a refit, a change of prices or a wanted change of output, and read the diff. It
needs the extra `zoo`, because it traces ResNet-50.

A page is read as its reader does. A block with `title="NAME"` is a file, a block `sh` holds commands. In a block
`console` or `text` a line `$ capplan ...` that output follows is a command with what it prints: `| head -N` shows its
first lines, and a line `...` stands for any lines. Commands without output there need a GPU, a network or a token.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
README = FOLDER.parent / "README.md"
DOCS = FOLDER.parent / "docs"
TUTORIALS = [DOCS / "screen.md", *sorted((DOCS / "tutorials").glob("*.md"))]
"""The tutorials, and the page that explains the screens."""
EXAMPLE = re.compile(
    r"(?<=<!-- example -->\n```text\n)\$ (?P<command>capplan [^\n]+)\n(?P<output>.*?)(?=```)", re.DOTALL
)
"""The worked example in the README: a command, and what it prints."""

BLOCK = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"^\$ (?P<command>capplan (?:[^\n\\]|\\\n)+)\n(?P<output>(?:(?!\$ )[^\n]*\n)+)", re.MULTILINE)
_HEAD = re.compile(r" \| head -(\d+)$")
_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
_MEASURED = re.compile(rf"[+-]?{_FIGURE.pattern}(?: (?:ns|µs|ms|s)\b)?")
"""A figure that hangs on the machine, its sign and its unit of time included."""
TOLERANCE = 0.1
"""A figure that moved by a larger share makes a page untrue. A smaller one is left until the page is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that a page shows."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that a page shows.

    `output` is what the page says it prints, None where it says nothing, `first_lines` how many lines it then shows;
    `may_refuse` says that exit code 1 is an answer, too, which the page shows with `; echo $?`.
    """

    words: tuple[str, ...]
    output: str | None = None
    first_lines: int | None = None
    may_refuse: bool = False

    def visible(self, printed: str) -> str:
        """Return the part of what was printed that the page shows."""
        return "".join(printed.splitlines(keepends=True)[: self.first_lines])


def steps(page: str) -> Iterator[File | Command]:
    """Yield the files and commands of a page in the order in which a reader meets them."""
    for block in BLOCK.finditer(page):
        if block["title"]:
            yield File(name=block["title"], text=block["text"])
        elif block["kind"] == "sh":
            for line in block["text"].replace("\\\n", " ").splitlines():
                yield _command(line, None)
        elif block["kind"] in ("console", "text"):
            for shown in SHOWN.finditer(block["text"]):
                yield _command(shown["command"].replace("\\\n", " "), shown["output"])


def renewed(page: str, printed: Callable[[Command], str]) -> str:
    """Return a page with what its commands print now; outputs with lines left out stay as they are.

    Args:
        page: the page's text.
        printed: runs a command and returns what it prints.
    """

    def renew(found: "re.Match[str]") -> str:
        command = _command(found["command"].replace("\\\n", " "), found["output"])
        output = printed(command)
        if "\n...\n" in f"\n{found['output']}":
            return found[0]
        return f"$ {found['command']}\n{command.visible(output)}"

    return BLOCK.sub(lambda block: SHOWN.sub(renew, block[0]), page)


def _command(line: str, output: str | None) -> Command:
    head = _HEAD.search(line)
    words = shlex.split(_HEAD.sub("", line).removesuffix("; echo $?"), comments=True)
    return Command(
        words=tuple(words[1:]),
        output=output,
        first_lines=int(head[1]) if head else None,
        may_refuse=line.endswith("; echo $?"),
    )


def difference(shown: str, printed: str, *, are_figures_free: bool = False) -> str | None:
    """Return the first line of a page that is not what the program prints; None where there is none.

    Words must be equal. Figures may differ by a tenth, or by anything where they hang on the machine. Widths of columns
    follow their figures and are not compared.

    Args:
        shown: the output on the page.
        printed: what the program prints.
        are_figures_free: True if the figures are the machine's.
    """
    rest = printed.splitlines()
    may_skip = False
    for line in shown.splitlines():
        if line.strip() == "...":
            may_skip = True
            continue
        at = next((i for i, other in enumerate(rest) if _is_like(line, other, are_figures_free=are_figures_free)), None)
        if at is None or (at and not may_skip):
            return f"the page shows {line!r}, the program prints {rest[0] if rest else 'nothing'!r}"
        rest, may_skip = rest[at + 1 :], False
    return None if may_skip or not rest else f"the program also prints {rest[0]!r}"


def _is_like(shown: str, printed: str, *, are_figures_free: bool) -> bool:
    figure = _MEASURED if are_figures_free else _FIGURE
    if _words(shown, figure) != _words(printed, figure):
        return False
    if are_figures_free:
        return True
    return all(_is_near(*pair) for pair in zip(figure.findall(shown), figure.findall(printed), strict=True))


def _words(line: str, figure: "re.Pattern[str]") -> str:
    """Return a line without its figures, and with each run of spaces or dashes as one."""
    return " ".join(re.sub(r"-{2,}", "--", figure.sub("0", line)).split())


def _is_near(shown: str, printed: str) -> bool:
    first, second = (float(figure.replace(",", "")) for figure in (shown, printed))
    return abs(first - second) <= TOLERANCE * max(abs(first), abs(second))


_GPUS = "--gpu t4 --gpu l4 --gpu a10g --gpu a100-sxm4-80gb --gpu h100-sxm5-80gb"
PLANS = {
    "resnet50.plan.json": f"plan torchvision:resnet50 --precision fp16 --batch 1..64 --energy {_GPUS}",
    "resnet50-training.plan.json": (
        f"plan torchvision:resnet50 --precision amp-fp16 --train --optimizer momentum --batch 32..256 --energy {_GPUS}"
    ),
}
"""The saved plans, and the command that makes each."""

_REPORT = "--provider aws --provider gcp --load"
_BERT = f"plan hf:bert --seq-len 128 --precision fp16 --batch 1..64 --energy {_GPUS}"
PLANS["bert.plan.json"] = _BERT
PLANS["flux-schnell.plan.json"] = (
    "plan diffusers:black-forest-labs/FLUX.1-schnell --batch 1,2,4,8 --energy --gpu l40s,a100-sxm4-80gb,h100-sxm5-80gb"
)
REPORTS = {
    "image-service": f"report resnet50.plan.json --batch 1..64 {_REPORT} image-service.load.yaml",
    "nightly-job": f"report resnet50.plan.json --batch 1..64 {_REPORT} nightly-job.load.yaml",
    "embedding-service": f"report bert.plan.json --batch 1..64 {_REPORT} embedding-service.load.yaml",
    "three-services": f"report --batch 1..64 {_REPORT} three-services.load.yaml",
    "text-to-image": f"report flux-schnell.plan.json --batch 1..8 {_REPORT} text-to-image.load.yaml",
    "training": f"report resnet50-training.plan.json --batch 32..256 {_REPORT} training.load.yaml",
}
"""The reports by name, and the command that makes each, run in this folder."""

DAY = "1795219200"
"""The day that the reports bear, 2026-11-21, in seconds since 1970."""


def run(command: str, *, folder: Path = FOLDER) -> str:
    """Run a capplan command in a folder and return what it prints; a gate that says no has answered, too."""
    words = [sys.executable, "-m", "capplan", *shlex.split(command)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr}")
    return done.stdout


def renew_page(page: Path) -> None:
    """Run the commands of a page in order, with the files that it shows, and write what they print into it."""
    with tempfile.TemporaryDirectory() as name:
        printed: dict[tuple[str, ...], str] = {}
        for step in steps(page.read_text()):
            if isinstance(step, File):
                (Path(name) / step.name).write_text(step.text)
            elif page != README or step.output:  # the README's other commands name files that the reader has
                printed[step.words] = run(shlex.join(step.words), folder=Path(name))
        page.write_text(renewed(page.read_text(), lambda command: printed[command.words]))


def main() -> None:
    """Make everything anew."""
    os.environ["SOURCE_DATE_EPOCH"] = DAY
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    for file, command in PLANS.items():
        (FOLDER / file).write_text(run(f"{command} --format json"))
    for name, command in REPORTS.items():
        (FOLDER / f"{name}.report.md").write_text(run(command))
    for page in (README, *TUTORIALS):
        renew_page(page)


if __name__ == "__main__":
    main()
