"""Remake docs/evidence/index.md: every claim of accuracy on one page, read from the tables of the pages that make it.

    python benchmarks/accuracy_summary.py

Run it after a script that remakes one of these pages; a test fails until then.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "evidence"
PAGE = DOCS / "index.md"

COLUMNS = {
    "rows": ("rows", "n", "count", "points", "models", "GPUs"),
    "median": ("median", "median error", "error, median"),
    "p90": ("p90", "90th percentile", "90 % within"),
    "covered": ("covered", "inside 90 % interval", "within the interval", "in the 90 % interval", "in the interval"),
}
"""The figures of a claim, and how pages head their columns."""


@dataclass(frozen=True, slots=True)
class Row:
    """A claim that is a row of a table: the table's heading, and the row's first cells."""

    heading: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A claim that is a sentence: an expression whose groups are figures; the text starts at the heading."""

    heading: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One line of the summary.

    Args:
        what: what is estimated, and what the fit had not seen.
        page: the page that states it.
        errors: where the page states the errors.
        coverage: where it states the coverage, if that is another place.
        command: what remakes the page.
    """

    what: str
    page: str
    errors: Row | Sentence
    command: str
    coverage: Row | None = None


SATURATED, INTERVALS = "Saturated batches", "Intervals of 90 % by class of evidence"
HELD_OUT = "Held-out errors"


def _step(what: str, cells: tuple[str, ...], evidence: str) -> Claim:
    return Claim(
        what=f"Eager step, {what}", page="latency.md", errors=Row(SATURATED, cells), command="accuracy.py",
        coverage=Row(INTERVALS, (evidence, cells[2])),
    )  # fmt: skip


def _served(what: str, held_out: str, metric: str) -> Claim:
    split = held_out if held_out.startswith("GPU") else held_out[0].lower() + held_out[1:]
    return Claim(
        what=f"{what} of a served model, {split}",
        page="llm-serving.md",
        errors=Row(HELD_OUT, (held_out, metric)),
        command="capplan llm fit",
    )


def _power(what: str, row: str) -> Claim:
    return Claim(what=what, page="../energy.md", errors=Row("Power", (row,)), command="energy.py")


def _llm_training(what: str, cell: str) -> Claim:
    return Claim(what=what, page="llm-training.md", errors=Row("Accuracy of LLM", (cell,)), command="llm_training.py")


def _engine(what: str, heading: str) -> Claim:
    return Claim(
        what=what,
        page="engines.md",
        errors=Sentence(heading, r"Median (?P<median>[\d.]+) %, 90 % within (?P<p90>[\d.]+) %"),
        command="accuracy_engines.py",
    )


TIMES = (
    _step("family of models left out", ("family new", "all", "nchw", "all"), "family new, GPU measured"),
    _step("GPU left out", ("GPU new", "all", "nchw", "all"), "own microbenchmarks"),
    _step("GPU left out, channels-last", ("GPU new", "all", "nhwc", "all"), "own microbenchmarks"),
    _step("GPU left out, spec sheet alone", ("sheet alone", "all", "nchw", "all"), "spec sheet alone"),
    _step("family and GPU left out", ("both new", "all", "nchw", "all"), "family and GPU new"),
    Claim(
        what="Eager step over batches, curve left out", page="latency.md", errors=Row("Batch curves", ("all", "")),
        command="accuracy.py",
    ),
    Claim(
        what="Compiled step, family left out", page="compile.md", errors=Row("Compiled", ("family: nchw",)),
        command="accuracy_compile.py",
    ),
    Claim(
        what="Compiled step, GPU left out", page="compile.md", errors=Row("Compiled", ("gpu: nchw",)),
        command="accuracy_compile.py",
    ),
    Claim(
        what="Gain of compiling, in sample", page="compile.md", errors=Row("The gain", ("all",)),
        command="accuracy_compile.py",
    ),
    Claim(
        what="Training step, family left out", page="compile.md",
        errors=Row("Training steps", ("family: nchw",)), command="accuracy_compile.py",
    ),
    Claim(
        what="Training step, GPU left out", page="training.md", errors=Row("How wrong", ("each GPU",)),
        command="accuracy_training.py",
    ),
    Claim(
        what="Training step, architecture left out", page="training.md",
        errors=Row("How wrong", ("each architecture",)), command="accuracy_training.py",
    ),
    Claim(
        what="Training on 2 to 8 GPUs against one, GPU left out", page="training.md",
        errors=Row("Several GPUs", ("2 to 8 GPUs",)), command="accuracy_training.py",
    ),
    Claim(
        what="Transformers in fp32, nothing fitted", page="published.md",
        errors=Sentence(
            "Whole transformers",
            r"(?P<rows>\d+) cases: median error (?P<median>[\d.]+) %, 90th percentile (?P<p90>[\d.]+) %, "
            r"in the 90 % interval (?P<covered>\d+) %",
        ),
        command="accuracy_fp32.py",
    ),
    Claim(
        what="torchvision on older cards, nothing fitted", page="published.md",
        errors=Row("Timings", ("torchvision on older cards",)), command="accuracy_other.py",
    ),
    Claim(
        what="FasterTransformer's TorchScript runs where the device decides, nothing fitted", page="published.md",
        errors=Row("Timings", ("FasterTransformer's comparisons, TorchScript: the device decides",)),
        command="accuracy_other.py",
    ),
    _engine("Transformers in TensorRT and FasterTransformer, GPU or model left out", "Transformers"),
    _engine("Networks of convolutions in TensorRT, GPU or model left out", "Networks of convolutions"),
    _engine("BERT in ONNX Runtime, GPU or model left out", "ONNX Runtime"),
    Claim(
        what="Model on a CPU, one core, fp32, batch 1, no step fitted", page="cpus.md",
        errors=Row("CPUs", ("fp32", "1")), command="accuracy_cpu.py",
    ),
    Claim(
        what="Model on a CPU, all cores, wall time, no step fitted", page="cpus.md",
        errors=Row("CPUs", ("median of repetitions", "1 and 4")), command="measured_cpu.py",
    ),
    Claim(
        what="Sustained 16-bit products of data-centre cards, GPU left out", page="sustained.md",
        errors=Row("What GPUs", ("16 bits", "the GPU, others")), command="sustained.py",
    ),
    _served("TPOT", "GPU left out", "tpot"),
    _served("TPOT", "Model left out", "tpot"),
    _served("TPOT", "GPU generation left out", "tpot"),
    _served("TPOT", "Newer releases of an engine left out", "tpot"),
    _served("TPOT", "Year left out", "tpot"),
    _served("TTFT", "GPU left out", "ttft"),
    _served("TTFT", "Model left out", "ttft"),
    _served("TTFT", "GPU generation left out", "ttft"),
    _served("TTFT", "Year left out", "ttft"),
    _served("Offline tokens/s", "GPU left out", "output_tokens_per_s"),
    _served("Offline tokens/s", "Model left out", "output_tokens_per_s"),
    _llm_training("LLM training, tokens/s, source left out", "tokens/s, dense: source left out"),
    _llm_training(
        "LLM training, tokens/s, source and generation of chips left out",
        "tokens/s, dense: source and generation left out",
    ),
    _llm_training("LLM training, adapters, source left out", "tokens/s, adapters on one GPU: source left out"),
    Claim(
        what="Diffusion pipeline on one GPU, family left out", page="../pipelines.md",
        errors=Sentence("Pipelines", r"estimates are (?P<median>[\d.]+) % off in\s+the middle and (?P<p90>\d+) % at"),
        command="pipelines.py",
    ),
    _power("Power of a served model, model left out", "model, served"),
    _power("Power of a served model, requests not stated, model left out", "model, served, requests not stated"),
    _power("Power of a served model, GPU and its generation left out", "GPU and generation, served"),
    _power("Power of a served model, all kinds of served work left out", "engine and kind of work, served"),
    _power("Joules per output token, model left out", "joules, model"),
    _power("Joules per output token, GPU and its generation left out", "joules, GPU and generation"),
)  # fmt: skip
"""Claims whose figures are errors of a time, a rate or a power."""

MEMORY = (
    _llm_training("LLM training, peak memory, source left out", "memory, dense: source left out"),
    _llm_training("LLM training, peak memory, framework left out", "memory, dense: framework left out"),
    Claim(
        what="vLLM's KV cache, model left out", page="../llm-memory.md", errors=Row("How right", ("cache",)),
        command="llm_memory.py",
    ),
    Claim(
        what="Weights of a served model, model left out", page="../llm-memory.md",
        errors=Row("How right", ("weights",)),
        command="llm_memory.py",
    ),
)  # fmt: skip
"""Claims whose figures are errors of an amount of memory."""

COUNTS = (
    Claim(
        what="Largest batches within one step of timm's ladder, models left out", page="memory.md",
        errors=Sentence(
            "The same, of models",
            r"\*\*all\*\* \| (?P<all>\d+) \| [\d.]+ % \| (?P<share>[\d.]+) %",
        ),
        command="memory_brackets.py",
    ),
    Claim(
        what="Live bytes equal to PyTorch's CPU allocator, inference", page="memory.md",
        errors=Sentence("Live bytes", r"inference[^|]*\| \d+ \| (?P<all>\d+) \| (?P<equal>\d+)"),
        command="memory_live.py",
    ),
    Claim(
        what="Models whose closed form over batches equals fresh traces", page="memory.md",
        errors=Sentence("Closed form", r"\| both \| (?P<all>\d+) \| (?P<equal>\d+)"),
        command="memory_closed_form.py",
    ),
    Claim(
        what="Models of timm that trace", page="coverage.md",
        errors=Sentence("What traces", r"\| timm \| (?P<all>\d+) \| (?P<equal>\d+)"), command="coverage.py",
    ),
    Claim(
        what="Architectures of transformers that trace", page="coverage.md",
        errors=Sentence("What traces", r"\| transformers \| (?P<all>\d+) \| (?P<equal>\d+)"), command="coverage.py",
    ),
    Claim(
        what="Models beyond the zoos whose MACs equal torch's counter within 0.1 %", page="wild.md",
        errors=Sentence("Models", r"MACs compared in (?P<all>\d+), equal within 0.1 % in (?P<equal>\d+)"),
        command="wild.py",
    ),
    Claim(
        what="Models beyond the zoos whose memory equals torch's MemTracker", page="wild.md",
        errors=Sentence("Memory of models", r"(?P<all>\d+) models compared; (?P<equal>\d+) equal to the byte"),
        command="wild_memory.py",
    ),
    Claim(
        what="Choices of deployments that keep a limit of TPOT, GPU left out, certainty 90 %", page="llm-serving.md",
        errors=Sentence("Decisions", r"GPU left out \| 90% \| (?P<all>\d+) \| (?P<broken>[\d.]+) %"),
        command="capplan llm fit",
    ),
)  # fmt: skip
"""Claims whose figure is a share of cases."""

HEAD = """# How right it is

Every claim of accuracy on one page, each from the page that states it in full. This page is made by
`python benchmarks/accuracy_summary.py`.

Errors are |predicted ÷ measured − 1|, in the median and at the 90th percentile. *Left out* means that the fit saw no
row of that GPU, model, family or source. *In the interval* is the share of measured values within the 90 % interval; a
dash means that the page does not state it. Commands are scripts in `benchmarks/`; its `README.md` says what each needs.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(text(), encoding="utf-8")


def text() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, claims in (("Times, rates and power", TIMES), ("Memory", MEMORY)):
        parts += [f"## {title}\n", *_error_table(claims)]
    parts += ["## Shares of cases\n", "| claim | cases | share | page, command |", "| --- | ---: | ---: | --- |"]
    parts += [_share_line(claim) for claim in COUNTS]
    return "\n".join(parts) + "\n"


def _error_table(claims: tuple[Claim, ...]) -> Iterator[str]:
    yield "| claim | rows | median | p90 | in the interval | page, command |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for claim in claims:
        found = figures(claim.page, claim.errors)
        if claim.coverage is not None:
            found["covered"] = figures(claim.page, claim.coverage)["covered"]
        shown = [found.get("rows", "–"), *(_percent(found.get(name)) for name in ("median", "p90", "covered"))]
        yield f"| {claim.what} | {' | '.join(shown)} | {_origin(claim)} |"
    yield ""


def _share_line(claim: Claim) -> str:
    """Return the line of a share: stated as such, as a count of cases, or as what is missing from all."""
    found = figures(claim.page, claim.errors)
    cases = int(found["all"])
    if "equal" in found:
        share = 100 * int(found["equal"]) / cases
    else:
        share = float(found["share"]) if "share" in found else 100 - float(found["broken"])
    return f"| {claim.what} | {cases:,} | {share:.1f} % | {_origin(claim)} |"


def _origin(claim: Claim) -> str:
    return f"[{Path(claim.page).stem}]({claim.page}), `{claim.command}`"


def _percent(figure: str | None) -> str:
    return "–" if figure in (None, "", "–") else f"{str(figure).rstrip(' %')} %"


def figures(page: str, place: Row | Sentence) -> dict[str, str]:
    """Return the figures that a page states at a place.

    Raises:
        LookupError: the page does not have the heading, the row or the sentence.
    """
    _, _, below = (DOCS / page).read_text(encoding="utf-8").partition(place.heading)
    if isinstance(place, Sentence):
        found = re.search(place.pattern, below)
        if found is None:
            raise LookupError(f"{page} does not state {place.pattern!r} below {place.heading!r}")
        return found.groupdict()
    heads: list[str] = []
    for line in below.splitlines():
        cells = [cell.strip().strip("*").replace("\\", "") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            heads = []
        elif not heads:
            heads = cells
        elif tuple(cells[: len(place.cells)]) == place.cells:
            row = dict(zip(heads, cells, strict=True))
            return {name: row[head] for name, known in COLUMNS.items() for head in known if head in row}
    raise LookupError(f"{page} has no row {place.cells} below {place.heading!r}")


if __name__ == "__main__":
    main()
