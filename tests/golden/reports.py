"""Reports of every kind by their text in every format."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.golden.documents import html_text, pdf_text, workbook_text
from tests.golden.world import masked, run, world

_SAVED = "--provider aws --provider gcp --gpu t4,l4,h100-sxm5-80gb --batch 1..32"
REPORTS: Mapping[str, str] = {
    "service": f"report resnet50.plan.json {_SAVED} --load image-service.load.yaml",
    "job": f"report resnet50.plan.json {_SAVED} --load nightly-job.load.yaml --currency EUR",
    "training": "report resnet50-training.plan.json --gpu l4,h100-sxm5-80gb --batch 32..256 --load training.load.yaml",
    "services": f"report {_SAVED} --load three-services.load.yaml",
    "pipeline": "report flux-schnell.plan.json --batch 1..8 --load text-to-image.load.yaml",
    "models": "report net.trace.json.gz text.trace.json.gz --gpu t4,l4 --batch 8",
    "serving": "llm report qwen3-8b --load llm.load.yaml",
}
"""Reports by name, and the command that writes each."""

_TEXTS: Mapping[str, Callable[[Path], str]] = {
    "html": lambda path: html_text(path.read_text(encoding="utf-8")),
    "xlsx": lambda path: workbook_text(path.read_bytes()),
    "md": lambda path: path.read_text(encoding="utf-8"),
    "csv": lambda path: path.read_text(encoding="utf-8"),
    "json": lambda path: path.read_text(encoding="utf-8"),
    "pdf": pdf_text,
}
"""What reads the text of a file, by its extension."""


def _written(command: str, *extensions: str) -> str:
    with world():
        files = [Path(f"report.{extension}") for extension in extensions]
        done = run([*shlex.split(command), *(word for file in files for word in ("-o", str(file)))])
        parts = [f"$ capplan {command}\n[exit {done.exit_code}]\n{done.stdout}{done.stderr}"]
        parts += [f"=== {file}\n{_TEXTS[file.suffix[1:]](file)}" for file in files if file.is_file()]
        return masked("\n".join(parts))


def _writing(command: str, *extensions: str) -> Callable[[], str]:
    return lambda: _written(command, *extensions)


CASES: Mapping[str, Callable[[], str]] = {
    **{f"report/{name}": _writing(command, "html", "xlsx", "md", "csv", "json") for name, command in REPORTS.items()},
    **{f"report-pdf/{name}": _writing(REPORTS[name], "pdf") for name in ("service", "serving")},
}
"""What makes each report's text; PDFs need pdftotext, so that they stand apart."""
