"""Write the page of held-out errors of LLM serving, together with the published errors of other tools."""

from collections.abc import Callable, Mapping, Sequence

from capplan.llm.core.fleet.limits import DEFAULT_CERTAINTY
from capplan.llm.core.measured import Accuracy, JudgedCell
from capplan.llm.core.serving.accuracy import (
    DECISION_LIMITS_S,
    Decisions,
    JudgedAnswer,
    ServingValidation,
    decisions,
    rank_correlation_if_known,
)
from capplan.llm.core.serving.cases import MeasuredRun, Metric
from capplan.report.render import render
from capplan.report.sections import Column, Format, Row, Section, Table, figure, plain_columns, words
from capplan.units import format_fraction

_TITLES = {
    "none": "In sample",
    "deployment": "A fifth of the deployments left out",
    "model": "Model left out",
    "family": "Model family left out",
    "gpu": "GPU left out",
    "architecture": "GPU generation left out",
    "vendor": "Vendor of GPUs left out",
    "release": "Newer releases of an engine left out",
    "older": "Older releases of an engine left out",
    "format": "Format or kind of layer left out of an engine",
    "engine": "Engine left out",
    "publisher": "Publisher of the runs left out",
    "year": "Year left out",
    "gpu and family": "GPU and model family left out",
    "architecture and engine": "GPU generation and engine left out",
    "gpu, one run": "GPU left out, one run measured there",
    "family, one run": "Model family left out, one run measured",
}


_INTRODUCTION = """# Accuracy of LLM serving times

Errors of `capplan llm estimate` and `capplan llm validate` on measured runs that the constants were not learnt from:
TTFT and TPOT of online runs on vLLM, SGLang, TensorRT-LLM and llama.cpp, TPOT of vLLM under steady load, and tokens per
second of offline runs and static batches. `capplan llm fit serving.csv.gz llm-energy.csv.gz serving-2.csv.gz --cross -o
llm-time.yaml --accuracy llm-serving.md` remakes this page together with the calibration.

* *Median* and *p90* are of the absolute relative error, *bias* is the median of predicted ÷ measured.
* Of each split the constants are fitted again without a whole group: all runs on one GPU, of all models of one
  architecture, of one generation of GPUs, one vendor, one engine, one publisher or one year. *Newer releases* are those
  of vLLM from 0.15 and from 0.23 on, of SGLang from 0.5.9 and 0.5.12, and of TensorRT-LLM from 1.0 and 1.2, *older
  releases* those of vLLM before 0.9 and before 0.14, of SGLang before 0.5.9, and of TensorRT-LLM before 0.11 and 1.0.
  *Format or kind of layer* leaves out all runs of an engine with one class of products or of recurrent layers, *GPU and
  model family* all runs on the one and all runs of the other. A group whose absence leaves less than 30 % of the runs
  is not judged, so that NVIDIA is never left out.
* What simulated loops and finite offline runs differ from their closed forms by is taken from the fit to all runs.
* *A fifth of the deployments left out* is the easiest question: model, GPU and engine are known in other settings.
* Rows do not say how many requests an offline run had. For those of TensorRT-LLM's documentation the number is that of
  its section on preparing the data set; other runs are taken as endless.
* *One run measured*: one run of each deployment (model, GPU, engine, parallelism) is known, as with `--measured`. TTFT
  is not listed.
* Interval widths are learnt from the held-out errors of all splits together: one of measured deployments whose
  publisher or year is left out, by metric, kind of model and engine, and what each novelty adds in square (model,
  format, GPU, generation, vendor, a newer or an older release, engine, and cards in machines of their owners: GeForce,
  and workstation cards of other vendors than NVIDIA). A run is judged by the novelties that it has where its group is
  left out, and by widths that are learnt without its group. Vendors are two: the constants have seen nothing of the one
  that is left out, and the widths that judge its GPUs of one line with one engine have seen its others. An end lies
  where a twentieth of the errors of a metric and kind is beyond it, and no nearer than the half-width.
* The runs of one deployment share most of their errors, so that a cell of a few deployments is often inside as a whole
  or outside as a whole. No rule for widths can change that, and only larger cells say whether intervals are right.
* Of the ML.ENERGY benchmark 57 rows, all but one on B200, are left out: their gaps between tokens are uneven (90th
  percentile above 1.25 times the median) though fewer than a tenth of their steps hold prompts, so that the host, and
  not the GPU, decided them.
* SGLang looks for new requests in every step, as it does by default; the runs of DeepSeek-R1 on B200 whose script sets
  10 or 30 steps are predicted with these.
* Clean repeats of one run differ by 0.7 % in TPOT (p90 9 %) and by 3.6 % in TTFT (p90 16 %).
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
    """Write the page of held-out errors as Markdown."""
    heading = "## Held-out errors\n\nFrom the easiest split to the hardest.\n"
    tables = [_overall(held_out), _widths(held_out), _decisions(held_out), _ranks(held_out)]
    parts = [_INTRODUCTION, heading, *tables, _OTHERS]
    for name, columns in _CELLS:
        if name in held_out:
            found = held_out[name]
            title = f"## {_TITLES[name]}, by {' and '.join(columns)}"
            parts.append(f"{title}\n\n{_cells(found, columns)}\n{_covered(found, columns)}")
    return "\n".join(parts)


_WIDTHS = """## How wide the intervals are

Shares of the judged questions whose 90 % interval reaches at most so far above what is expected. A time to the first
token whose interval spans more than a factor of 5 is said to be *not known*.
"""
_REACHES = (1.2, 1.35, 1.5, 2.0, 5.0**0.5)


def _widths(held_out: Mapping[str, ServingValidation]) -> str:
    rows = []
    for name, validation in held_out.items():
        for metric in Metric:
            reach = [
                item.predicted.high / item.predicted.expected for item in validation.answers if item.metric is metric
            ]
            if reach:
                shares = [sum(each <= most * (1 + 1e-9) for each in reach) / len(reach) for most in _REACHES]
                rows.append((_TITLES[name], str(metric), *(format_fraction(share) for share in shares)))
    numbers = [f"+{most - 1:.0%}" for most in _REACHES]
    return f"{_WIDTHS}\n{_markdown(Table(plain_columns('held out', 'metric', *numbers, numbers=numbers), rows))}"


_LIMITS_MS = ", ".join(f"{limit_s * 1000:g}" for limit_s in DECISION_LIMITS_S)
_DECISIONS = f"""## Decisions within a limit of TPOT

`capplan llm plan` takes what should keep the limits with a certainty of {DEFAULT_CERTAINTY:.0%} (`--certainty`). Here
measured runs are its choices. Of one model on one kind of GPU with the same requests, whatever the engine, the
parallelism and the clients, the run with the most predicted tokens/s per GPU is taken of those whose prediction keeps a
limit of {_LIMITS_MS} ms. The choice breaks the limit if its measured TPOT is
above it. A limit that all runs keep leaves nothing to decide and is left out. With a certainty of 50 % expected times
decide. *Tokens/s kept* are those of the choices that hold, as a share of what choices by measurement give.
"""


def _decisions(held_out: Mapping[str, ServingValidation]) -> str:
    found = [
        (_TITLES[name], certainty, made)
        for name in ("gpu", "model", "family")
        if name in held_out
        for certainty in (0.5, 0.75, DEFAULT_CERTAINTY, 0.95)
        if (made := decisions(held_out[name].answers, certainty=certainty))
    ]
    columns: list[Column[tuple[str, float, Decisions]]] = [
        words("held out", lambda row: row[0]),
        figure("certainty", lambda row: row[1], "{:.0%}".format),
        figure("choices", lambda row: row[2].choices),
        figure("break the limit", lambda row: row[2].broken_fraction, format_fraction),
        figure("by, median", lambda row: row[2].excess, format_fraction),
        figure("tokens/s kept", lambda row: row[2].kept_rate, format_fraction),
    ]
    return f"{_DECISIONS}\n{_markdown(Table(columns, found))}"


_RANKS = """## What limits the rank correlation of TTFT

Rows do not state everything that decides a time to the first token: how often an engine looks for new requests, how
many tokens it sends at once, how many sequences its start command lets run, and what the benchmark's client does. One
and the same prompt on the same GPUs and engine takes three to four times as long in the runs of one output length as in
those of another (TensorRT-LLM, Llama-3.1-70B on one B200, 4 clients: 104 ms before 8192 tokens, 383 ms before 1024), or
ten times as long from one number of clients to the next (SGLang, DeepSeek-R1 in NVFP4: 0.9 s at 16, 7.1 s at 32). All
runs of Llama-3.1-8B on two, four and eight H100 with TensorRT-LLM 1.0.0rc3 stop at 9,200 to 9,300 output tokens per
second, where something outside the GPUs is full and first tokens wait for it. With few clients the mean of these runs
holds the time of a whole answer divided by the clients: with 8 clients on one H100 it is 0.19, 0.32 and 0.55 s before
answers of 1.0, 1.9 and 3.8 s, with 16 clients 0.14, 0.19 and 0.31 s, as if one client always waited until another's
answer ends. Qwen3-32B in the same version and series of runs shows nothing of it (a fit gives 0.05 of that part there,
and 0.73 here), so that it is no rule of the engine or of the benchmark that a prediction could use. SGLang's runs of
DeepSeek-R1 in NVFP4 whose experts are cut by tensor parallelism have a mean of 5.5 to 9.2 s in most settings, and those
with whole experts 0.2 to 0.8 s: as if the first of ten requests of each client waited for a minute. That would be
kernels that are compiled or tuned during the run; the rows do not say so. Experts of four bits have interval widths of
their own for that reason.

The table shows what a model could reach that knew more than the rows state: each prediction is mended by the mean error
of the *other* runs that are alike in what the first column names.
"""
_UNORDERED = """\
Two groups of rows hold most of what is out of order: those runs of Llama-3.1-8B, and the runs whose source does not
state the engine's version (309 of Llama-3.1-70B, 71 of DeepSeek-R1 and 34 others, all but 45 on B200), so that one set
of constants serves several versions. Constants and predictions are the same in all lines; rows are only left out of the
count. Which groups these are was found by looking at the errors, so that the last line is what the model reaches on
rows that state what decides, and not what a new row may count on.
"""


def _ranks(held_out: Mapping[str, ServingValidation]) -> str:
    names = [name for name in ("none", "gpu", "model") if name in held_out]
    ttft = [[item for item in held_out[name].answers if item.metric is Metric.TTFT] for name in names]
    rows = [("as predicted", *(_correlation(items, None) for items in ttft))]
    rows += [(title, *(_correlation(items, shared) for items in ttft)) for title, shared in _ALIKE]
    numbers = [_TITLES[name] for name in names]
    columns = plain_columns("mean error known of other runs with", *numbers, numbers=numbers)
    return f"{_RANKS}\n{_markdown(Table(columns, rows))}\n{_UNORDERED}\n{_ordered(held_out)}"


def _ordered(held_out: Mapping[str, ServingValidation]) -> str:
    """Write the rank correlation of TTFT with and without the runs whose rows do not state what decides it."""
    names = [name for name in ("none", "gpu", "model", "family") if name in held_out]
    rows = []
    for title, counts in _COUNTED:
        ttft = [[item for item in held_out[name].answers if item.metric is Metric.TTFT] for name in names]
        answers = [[item for item in items if counts(item.run)] for items in ttft]
        rows.append((title, str(len(answers[0]) if answers else 0), *(_correlation(items, None) for items in answers)))
    numbers = ["n", *(_TITLES[name] for name in names)]
    return _markdown(Table(plain_columns("rows counted", *numbers, numbers=numbers), rows))


def _waits_for_host(run: MeasuredRun) -> bool:
    return run.version == "1.0.0rc3" and run.model == "llama-3.1-8b-instruct"


_COUNTED: tuple[tuple[str, Callable[[MeasuredRun], bool]], ...] = (
    ("all", lambda _: True),
    ("without Llama-3.1-8B on TensorRT-LLM 1.0.0rc3", lambda run: not _waits_for_host(run)),
    ("without runs of no stated version", lambda run: bool(run.version)),
    ("without both", lambda run: bool(run.version) and not _waits_for_host(run)),
)


def _markdown(table: Table[Row]) -> str:
    return render([Section([table])], Format.MD)


def _correlation(items: Sequence[JudgedAnswer], shared: Callable[[MeasuredRun], str] | None) -> str:
    found = rank_correlation_if_known(items, shared or (lambda run: f"{run.file}:{run.line}"))
    return "" if found is None else f"{found:.3f}"


_ALIKE: tuple[tuple[str, Callable[[MeasuredRun], str]], ...] = (
    ("the same model, GPU, engine, version and formats", lambda run: run.block),
    ("and the same parallelism", lambda run: run.deployment),
    ("and the same lengths", lambda run: f"{run.deployment}|{run.input_len}|{run.output_len}|{run.spread}"),
)

_CELLS = (
    ("gpu", ("gpu", "engine")), ("architecture", ("gpu", "engine")), ("release", ("engine", "version")),
    ("family", ("weights",)), ("model", ("model",)), ("none", ("engine",)),
)  # fmt: skip
_FEWEST = 20
_DEPLOYMENTS = 8
_COVERED = (0.86, 0.96)


def _covered(validation: ServingValidation, by: Sequence[str]) -> str:
    """Describe how many of the larger cells are covered about as often as their intervals promise."""
    cells = [cell for cell in validation.cells(by) if cell.accuracy.n >= _FEWEST]
    large = [cell for cell in cells if cell.deployments >= _DEPLOYMENTS]
    low, high = _COVERED
    return (
        f"Of the {len(cells)} cells of {_FEWEST} values and more, {_count_covered(cells)} have {low:.0%} to {high:.0%} "
        f"of them inside their intervals; of the {len(large)} that hold {_DEPLOYMENTS} deployments or more, "
        f"{_count_covered(large)}.\n"
    )


def _count_covered(cells: Sequence[JudgedCell]) -> int:
    low, high = _COVERED
    return sum(low <= cell.accuracy.coverage <= high for cell in cells)


def _overall(held_out: Mapping[str, ServingValidation]) -> str:
    rows = [
        (_TITLES[name], str(metric), accuracy)
        for name, validation in held_out.items()
        for metric, accuracy in validation.overall().items()
        if accuracy is not None
    ]
    columns: list[Column[tuple[str, str, Accuracy]]] = [
        words("held out", lambda row: row[0]),
        words("metric", lambda row: row[1]),
        *_accuracy_columns(lambda row: row[2]),
    ]
    return _markdown(Table(columns, rows))


def _cells(validation: ServingValidation, by: Sequence[str]) -> str:
    def key(name: str) -> Column[JudgedCell]:
        return words(name, lambda cell: cell.key[name])

    columns: list[Column[JudgedCell]] = [
        *map(key, by),
        words("metric", lambda cell: str(cell.metric)),
        figure("deployments", lambda cell: cell.deployments),
        *_accuracy_columns(lambda cell: cell.accuracy),
    ]
    return _markdown(Table(columns, validation.cells(by)))


def _accuracy_columns(accuracy: Callable[[Row], Accuracy]) -> list[Column[Row]]:
    return [
        figure("n", lambda row: accuracy(row).n),
        figure("median", lambda row: accuracy(row).mdape, format_fraction),
        figure("p90", lambda row: accuracy(row).p90, format_fraction),
        figure("bias", lambda row: accuracy(row).bias, "{:.2f}".format),
        figure("inside 90 % interval", lambda row: accuracy(row).coverage, format_fraction),
        figure("rank correlation", lambda row: accuracy(row).spearman, "{:.3f}".format),
        figure("within a factor of two", lambda row: accuracy(row).within_factor_two, format_fraction),
    ]
