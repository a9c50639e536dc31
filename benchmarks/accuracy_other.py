"""Remake docs/evidence/published.md: timings that other projects published, judged and never fitted.

    python benchmarks/accuracy_other.py ../shared/data/measured/latency-other.csv.gz -o docs/evidence/published.md

Rows are mapped to models of the zoos where that can be done without guessing; what is left out is counted by reason.
`--rows FILE.csv` keeps the mapped rows as a file for `capplan validate`.
"""

import argparse
import csv
import gzip
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pages import write_section

from capplan.app.calibration.validate import validate
from capplan.core.calibrate.validation import JudgedStep
from capplan.core.latency.types import Binding

Row = Mapping[str, str]
COLUMNS = (
    "model", "gpu", "framework", "torch", "precision", "layout", "task", "batch", "input_size", "latency_ms", "arg",
    "host_copy",
)  # fmt: skip
GPUS = {
    "RTX 2080 Ti": "rtx-2080-ti", "TITAN Xp": "titan-xp", "GTX 1080 Ti": "gtx-1080-ti", "TITAN V": "titan-v",
    "A100-SXM-40GB": "a100-sxm4-40gb", "A100-SXM?": "a100-sxm4-40gb", "T4": "t4", "A10": "a10",
    "V100-SXM2?": "v100-sxm2-16gb", "A100-PCIe-40GB": "a100-pcie-40gb", "H100-SXM": "h100-sxm5-80gb",
}  # fmt: skip
_SWIN = {
    ("Swin-T", "224"): "timm:swin_tiny_patch4_window7_224", ("Swin-S", "224"): "timm:swin_small_patch4_window7_224",
    ("Swin-B", "224"): "timm:swin_base_patch4_window7_224", ("Swin-B", "384"): "timm:swin_base_patch4_window12_384",
    ("Swin-L", "224"): "timm:swin_large_patch4_window7_224", ("Swin-L", "384"): "timm:swin_large_patch4_window12_384",
}  # fmt: skip
_SCRIPTED = {
    "bert-base (12 layers, hidden 768)": "hf:bert", "swin-tiny-224 v1": "timm:swin_tiny_patch4_window7_224",
    "vit-b16-384 (ViT-B_16, 384x384)": "timm:vit_base_patch16_384",
}  # fmt: skip
_WRITTEN_OUT = "attn_implementation=eager"
_LARGE = {
    "bert_large": ("hf:bert", "hidden_size=1024 num_hidden_layers=24 num_attention_heads=16 intermediate_size=4096"),
    "gpt2_large": ("hf:gpt2", "n_embd=1280 n_layer=36 n_head=20"),
}
_SOURCES = {
    "ryujaehun/pytorch-gpu-benchmark": "torchvision on older cards", "microsoft/Swin-Transformer": "Swin's own",
    "NVIDIA/FasterTransformer": "FasterTransformer's comparisons", "sitar-lab/NeuSight": "NeuSight, compiled",
}  # fmt: skip
_HEAD = """\
Remade by `python benchmarks/accuracy_other.py` (see its docstring). None of these rows was fitted. They were made with
other scripts, other hosts and older software than the rows that capplan is fitted to: what they say of precision, power
limit and timer is sometimes a guess. `V100-SXM2?` and `A100-SXM?` are taken as the cards of 16 and 40 GB, TorchScript
as eager mode with attention written out, "fp32" in NVIDIA's containers on Ampere as TF32.

FasterTransformer compares itself with TorchScript, whose interpreter dispatches operators in C++, not from Python:
BERT-base takes 4.2 ms on an A100 at every small batch and length, where eager mode takes 11 ms (which batch curves of
BERT in eager mode confirm, latency.md). So these rows are split: where the estimate waits for the host, it is that of
eager mode's host, and not of what ran. ViT-B at 384
pixels in fp16 takes 1.7 times the estimate on an A100 and 2.1 times on a T4 (2.4 on both before unaligned batched
products lost what tensor cores gain), Swin in fp16 on T4 1.6 times; why was not found out. AITemplate's ViT-L at 384
pixels, which is not among these rows, takes 0.75 to 0.85 of it on A100 and MI250 (1.1 before), its ViT-B at 224 pixels
1.0 to 1.2 (1.25): of 577 tokens products lose less than of 197.

Cards of Pascal, Volta and Turing ran versions of PyTorch from 2018 to 2021, to whose kernels nothing here was fitted.
Their steps of 12 images wait for the host in half of the models, and each card's host is another: one dispatches in
half of another's time. One number was learnt from these rows, what a desktop's dispatch takes against a server's
(`desktop_share` in rates.yaml, by benchmarks/host_laws.py, which says what it is without each GPU). The timer held the
copy of images that a loader's process had just handed over, from pageable memory: the interval spans what was measured
of such copies elsewhere, 2.3 GB/s to 0.68 of the link. cuDNN 7 ran 3x3 convolutions of 16-bit images by Winograd's
algorithm on cards without tensor cores, cuDNN 8 did not (GTX 1080 Ti, Titan Xp). What stays: grouped convolutions in
16 bits before torch 1.13 are slower than predicted, and Titan Xp's whole host, whose copies took the longest.

Titan Xp's intervals in fp32 cover less than those of 2026-11-22 did (95 % of 22 rows) though its estimates are the same
within a percent: single precision got one spread of cards, learnt from 31 of them, in place of the wider one of
architectures with few timings. That card lies off by 0.8 as a whole, further than nine of ten; its rows outside took
longer than the interval's end, six of seven by less than 5 %.

"""


def mapped(row: Row) -> dict[str, str] | str:
    """Return a row in the form of `capplan validate`, or why it is left out."""
    if row["task"] != "infer":
        return "training: steps without an optimizer, or with the data pipeline"
    if row["gpu_count"] not in ("", "1"):
        return "several GPUs"
    found = {"ryujaehun/pytorch-gpu-benchmark": _older, "microsoft/Swin-Transformer": _swin}.get(row["source_repo"])
    if row["source_repo"] == "NVIDIA/FasterTransformer" and row["framework"] == "torchscript":
        found = _scripted
    if row["source_repo"] == "sitar-lab/NeuSight":
        found = _compiled if row["framework"] == "pytorch-compile" else None
    if found is not None:
        made = found(row)
        gpu = GPUS.get(row["gpu"])
        return made if isinstance(made, str) or gpu is None else {**_shared(row), "gpu": gpu, **made}
    return _left_out(row)


def _left_out(row: Row) -> str:
    if row["source_repo"] == "sitar-lab/NeuSight":
        return "judged below, in a section of their own"
    if row["source_repo"] == "facebookincubator/AITemplate" and row["framework"] == "pytorch-eager":
        return "fitted as batch curves, or detectron2's own model"
    if not row["framework"].startswith("pytorch"):
        return "an engine or another framework (engines.md judges TensorRT)"
    if row["source_repo"] == "NVIDIA/DeepLearningExamples":
        return "fitted as batch curves, or a model of NVIDIA's that no zoo has"
    return "a pipeline of several models, or pre- and postprocessing, timed together"


def _shared(row: Row) -> dict[str, str]:
    return {"framework": "eager", "layout": "nchw", "task": "infer", "batch": row["batch"],
            "latency_ms": row["latency_ms"], "arg": "", "host_copy": ""}  # fmt: skip


def _older(row: Row) -> dict[str, str] | str:
    """Map torchvision's classifiers on cards of 2016 to 2020, and on one A100."""
    if row["precision"] == "fp64":
        return "double precision, in which nothing is estimated"
    is_ampere = row["gpu"].startswith("A100")
    return {
        "model": f"torchvision:{row['model']}", "input_size": row["img_or_seq"], "host_copy": "1",
        "torch": "1.7" if "2021" in row["date_or_version"] else "1.4",
        "precision": "tf32" if is_ampere and row["precision"] == "fp32" else row["precision"],
    }  # fmt: skip


def _swin(row: Row) -> dict[str, str] | str:
    model = _SWIN.get((row["model"], row["img_or_seq"]))
    if model is None:
        return "a variant that no zoo has"
    return {"model": model, "torch": "1.8", "precision": "fp32", "input_size": row["img_or_seq"]}


def _scripted(row: Row) -> dict[str, str] | str:
    model = _SCRIPTED.get(row["model"])
    if model is None:
        return "a variant that no zoo has"
    arguments = {"arg": _WRITTEN_OUT} if model.startswith("hf:") else {}
    size = row["img_or_seq"] if model.startswith("hf:") else re.findall(r"\d+", row["img_or_seq"] or "224")[0]
    return {"model": model, "torch": "1.13", "precision": row["precision"], "input_size": size, **arguments}


def _compiled(row: Row) -> dict[str, str] | str:
    model, arguments = _LARGE[row["model"]]
    return {
        "model": model, "framework": "compile", "torch": "2.1", "precision": "fp32-ieee",
        "input_size": row["img_or_seq"], "arg": f"{_WRITTEN_OUT} {arguments}",
    }  # fmt: skip


_HOSTS_SHARE = 0.3
"""From this share of launches in an estimate on, the host decides much of it."""
_SCRIPTED_SOURCE = "FasterTransformer's comparisons"


def _source(each: JudgedStep, sources: Mapping[int, str]) -> str:
    """Return the source that a row is counted under: TorchScript's rows by whether they wait for the host."""
    source = sources[each.step.line]
    if source != _SCRIPTED_SOURCE:
        return source
    launches = dict(each.estimate.share_by_binding)[Binding.LAUNCHES]
    return f"{source}, TorchScript: {'waits for the host' if launches > _HOSTS_SHARE else 'the device decides'}"


def table(judged: Sequence[JudgedStep], sources: Mapping[int, str]) -> str:
    """Write errors by source, GPU and precision."""
    groups: dict[tuple[str, str, str], list[JudgedStep]] = defaultdict(list)
    for each in judged:
        source = _source(each, sources)
        for key in ((f"**{source}**", "", ""), (source, each.step.gpu, each.step.workload.precision.value)):
            groups[key].append(each)
    lines = [
        "| source | GPU | precision | rows | median | p90 | bias | in the 90 % interval |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key, rows in sorted(groups.items(), key=lambda item: item[0][0].strip("*") + " ".join(item[0][1:])):
        logs = np.array([row.log_error for row in rows])
        middle, far = np.quantile(np.abs(np.expm1(logs)), [0.5, 0.9])
        covered = np.mean(
            [row.estimate.latency_s.low <= row.step.latency_s <= row.estimate.latency_s.high for row in rows]
        )
        figures = (f"{len(rows)}", f"{100 * middle:.1f}", f"{100 * far:.1f}", f"{np.exp(np.median(logs)):.2f}")
        lines.append("| " + " | ".join((*key, *figures, f"{100 * covered:.0f} %")) + " |")
    return "\n".join(lines) + "\n"


def left_out_table(reasons: Counter[str]) -> str:
    """Count the rows that are left out, by reason."""
    lines = ["| left out because | rows |", "| --- | ---: |"]
    return "\n".join([*lines, *(f"| {reason} | {count:,} |" for reason, count in reasons.most_common())]) + "\n"


def main() -> None:
    """Map, judge and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rows", type=Path, help="keep the mapped rows here")
    parser.add_argument("--traces", type=Path)
    words = parser.parse_args()
    with gzip.open(words.measured, "rt", newline="") as stream:
        rows = list(csv.DictReader(stream))
    made = [mapped(row) for row in rows]
    kept = [(row, found) for row, found in zip(rows, made, strict=True) if not isinstance(found, str)]
    reasons = Counter(found for found in made if isinstance(found, str))
    with tempfile.TemporaryDirectory() as folder:
        path = words.rows or Path(folder) / "mapped.csv"
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(found for _, found in kept)
        answer = validate((path,), traces=words.traces)
    sources = {line: _SOURCES[row["source_repo"]] for line, (row, _) in enumerate(kept, start=1)}
    reasons.update(f"cannot be predicted: {row.reason}" for row in answer.validation.skipped)
    left_out = f"\n## Left out\n\nOf {len(rows):,} rows, {len(answer.judged):,} are judged here.\n\n"
    page = _HEAD + table(answer.judged, sources) + left_out + left_out_table(reasons)
    write_section(words.output, "accuracy_other.py", page)


if __name__ == "__main__":
    main()
