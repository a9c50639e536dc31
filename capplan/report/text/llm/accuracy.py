"""Write the page of held-out errors of LLM serving, together with the published errors of other tools."""

from collections.abc import Mapping, Sequence

from capplan.core.llm.serving.accuracy import Accuracy, ServingValidation
from capplan.report.table import render_markdown, table
from capplan.units import format_fraction

_TITLES = {
    "none": "In sample",
    "gpu": "GPU left out",
    "model": "Model left out",
    "family": "Model family left out",
    "gpu, one run": "GPU left out, one run measured there",
    "model, one run": "Model left out, one run measured",
}


_INTRODUCTION = """# Accuracy of LLM serving times

Errors of `capplan llm estimate` and `capplan llm validate` on measured runs that the constants were not learnt from:
TTFT and TPOT of online runs on vLLM, SGLang and TensorRT-LLM, and tokens per second of offline runs and static
batches, on five GPUs. `capplan llm fit serving.csv.gz --cross -o llm-time.yaml --accuracy accuracy-llm.md` remakes
this page together with the calibration.

* *Median* and *p90* are of the absolute relative error, *bias* is the median of predicted ÷ measured.
* *GPU left out* and *model left out*: the constants are fitted again without any run on that GPU or of that model.
  *Model family left out* removes all models of one architecture, and so sometimes every run that teaches a class of
  kernels (latent attention, MXFP4); it is harder than a new model of a known kind. Leaving out the H100 is harder than
  a new GPU, too: it removes every offline run in fp8 with one scale a tensor and every run of equal lengths.
* Rows do not say how many requests an offline run had. For those of TensorRT-LLM's documentation the number is taken
  from its section on preparing the data set; other runs are taken as endless.
* *One run measured*: one run of each deployment (model, GPU, engine, parallelism) is known, as with `--measured`. It
  does not change TTFT.
* Interval widths are learnt from the same held-out errors, by metric, kind of model and engine, so that their overall
  coverage is about 90 % by construction; the coverage of single cells is not. The runs of one deployment share most of
  their errors, so that a cell of one model is often inside as a whole or outside as a whole.
* Clean repeats of one run differ by 0.7 % in TPOT (p90 9 %) and by 3.6 % in TTFT (p90 16 %). TTFT also holds settings
  that no row states: the same prompts on the same engine and GPUs differ by a factor of two to four between two rows
  of some deployments, which limits the rank correlation.
"""
_OTHERS = """## Beside other tools

The published figures are of other data and other definitions, so they only give an order of magnitude.

| tool | figure | where |
| --- | --- | --- |
| AIConfigurator | TTFT 45 % off on A100 | ai-dynamo/aiconfigurator#1205 |
| AIConfigurator | 884 tokens/s per GPU predicted, 192 measured | ai-dynamo/aiconfigurator#1396 |
| AIConfigurator | a closed loop's TTFT 2.8 to 14.4 times that of a lone request | ai-dynamo/aiconfigurator#1510 |
| BLIS | none: no published error of it was found in what was read | |
| roofline of operators without constants | TPOT 56 to 60 %, offline tokens/s 50 to 108 % | study on the same runs |
| 0.55 × bandwidth | TPOT 37 to 43 %, offline tokens/s 60 to 160 % | study on the same runs |
| fit of 80 constants in 240 lines | TPOT 18 % without the GPU, 17 % without the family | study on the same runs |
"""


def accuracy_markdown(held_out: Mapping[str, ServingValidation]) -> str:
    """Write the page of held-out errors as Markdown.

    Args:
        held_out: Judged answers by what was left out: none, gpu, model, family, and the first two after one run.
    """
    parts = [_INTRODUCTION, "## Held-out errors\n", _overall(held_out), _OTHERS]
    for name, columns in _CELLS:
        if name in held_out:
            found = held_out[name]
            title = f"## {_TITLES[name]}, by {' and '.join(columns)}"
            parts.append(f"{title}\n\n{_cells(found, columns)}\n{_covered(found, columns)}")
    return "\n".join(parts)


_CELLS = (("gpu", ("gpu", "engine")), ("model", ("model",)), ("family", ("model",)), ("none", ("engine",)))
_FEWEST = 20
_COVERED = (0.86, 0.96)


def _covered(found: ServingValidation, by: Sequence[str]) -> str:
    """Describe how many of the larger cells are covered about as often as their intervals promise."""
    low, high = _COVERED
    shares = [cell.accuracy.coverage for cell in found.cells(by) if cell.accuracy.n >= _FEWEST]
    inside = sum(low <= share <= high for share in shares)
    return (
        f"Of the {len(shares)} cells of {_FEWEST} values and more, {inside} have {low:.0%} to {high:.0%} of them "
        "inside their intervals.\n"
    )


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
