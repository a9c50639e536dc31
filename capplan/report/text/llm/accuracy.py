"""The page of held-out errors: what predictions of LLM serving missed by, beside what other tools publish."""

from collections.abc import Mapping, Sequence

from capplan.core.llm.serving.accuracy import Accuracy, ServingValidation
from capplan.report.table import render_markdown, table
from capplan.units import format_fraction

_TITLES = {
    "none": "In sample",
    "gpu": "GPU left out",
    "family": "Model family left out",
}


def accuracy_markdown(held_out: Mapping[str, ServingValidation]) -> str:
    """Write the tables of held-out errors as Markdown.

    Args:
        held_out: Judged answers by what was left out: none, gpu, family.
    """
    parts = [_overall(held_out)]
    for name, column in (("gpu", "gpu"), ("family", "model"), ("none", "engine")):
        if name in held_out:
            parts.append(f"### {_TITLES[name]}, by {column}\n\n{_cells(held_out[name], (column,))}")
    return "\n".join(parts)


def _overall(held_out: Mapping[str, ServingValidation]) -> str:
    rows = [
        (_TITLES[name], str(metric), *_numbers(accuracy))
        for name, found in held_out.items()
        for metric, accuracy in found.overall().items()
        if accuracy is not None
    ]
    return render_markdown(table(f"held out|metric|{_HEADINGS}", rows))


_HEADINGS = "n>|median>|p90>|bias>|inside 90 % interval>|rank correlation>|within a factor of two>"


def _cells(found: ServingValidation, by: Sequence[str]) -> str:
    rows = [(*cell.key.values(), str(cell.metric), *_numbers(cell.accuracy)) for cell in found.cells(by)]
    return render_markdown(table("|".join((*by, "metric", _HEADINGS)), rows))


def _numbers(accuracy: Accuracy) -> tuple[str, ...]:
    return (
        str(accuracy.n),
        format_fraction(accuracy.mdape),
        format_fraction(accuracy.p90),
        f"{accuracy.bias:.2f}",
        format_fraction(accuracy.coverage),
        "" if accuracy.spearman is None else f"{accuracy.spearman:.3f}",
        format_fraction(accuracy.within_factor_two),
    )
