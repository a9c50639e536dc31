"""Write published timings of training steps in the form of `capplan validate`: what was run is said here.

    python benchmarks/training_rows.py ../shared/data/training/lambda-training.csv.gz \\
        ../shared/data/training/llm-training.csv.gz -o training-rows.csv

What the sources ran:

* lambdal/deeplearning-benchmark runs NVIDIA's DeepLearningExamples in NVIDIA's containers: `v0` PyTorch 1.7, `results`
  1.13, `v2` 2.5. ResNet-50 v1.5 with images that stay on the GPU, row-major also under autocast, SGD with momentum.
  BERT on SQuAD (384 tokens) with attention written out, dropout, clipped gradients and Adam of one kernel; its "amp" is
  apex's level O2, which converts the model to fp16 and keeps fp32 weights in the optimizer alone: precision fp16. These
  containers allow TF32 in all products, so that "fp32-or-tf32" is TF32 from Ampere on. A server that was timed several
  times, or several servers alike, are one row: their median.
* The ResNet-50 rows of DeepLearningExamples itself read images through DALI on the GPU, channels-last under autocast.
* torchao's ViT row: timm's model, compiled, AdamW of one kernel, autocast to bf16.

Left out: SSD300 (its augmentation on the host decides at the fast end, and no zoo has that network), accumulation of
gradients over dozens of steps before one of LAMB (BERT's pretraining), optimizers of 4 and 8 bits, LoRA.
"""

import argparse
import csv
import gzip
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Row = Mapping[str, str]
COLUMNS = (
    "model", "gpu", "gpus", "framework", "torch", "precision", "layout", "task", "optimizer", "batch", "seq_len",
    "samples_per_s", "arg", "source",
)  # fmt: skip
_SOFTWARE = {"v0": "1.7", "results": "1.13", "v2": "2.5"}
_WRITTEN_OUT = "attn_implementation=eager"
_LARGE = "hidden_size=1024 num_hidden_layers=24 num_attention_heads=16 intermediate_size=4096"
_TASKS = {
    "resnet50": {"model": "torchvision:resnet50", "optimizer": "momentum"},
    "bert_base_squad": {"model": "hf:bert", "seq_len": "384", "arg": _WRITTEN_OUT, "optimizer": "adam"},
    "bert_large_squad": {
        "model": "hf:bert", "seq_len": "384", "arg": f"{_WRITTEN_OUT} {_LARGE}", "optimizer": "adam",
    },
}  # fmt: skip
_BEFORE_TF32 = ("v100", "t4", "titan", "gtx", "rtx-20", "quadro-rtx")
_UNKNOWN_GPUS = ("v100-unknown",)


def lambda_rows(rows: Iterable[Row]) -> Iterator[dict[str, str]]:
    """Yield the medians of alike rows of lambdal/deeplearning-benchmark."""
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row["task"] in _TASKS and row["gpu"] not in _UNKNOWN_GPUS:
            key = row["gpu"], row["gpus"], row["nvlink"], row["software"], row["task"], row["precision"]
            groups[*key, row["batch_per_gpu"]].append(float(row["samples_per_s"]))
    for (gpu, gpus, _, software, task, precision, batch), rates in groups.items():
        plain = "fp32" if gpu.startswith(_BEFORE_TF32) else "tf32"
        half = "amp-fp16" if task == "resnet50" else "fp16"
        yield {
            **_TASKS[task], "gpu": gpu, "gpus": gpus, "torch": _SOFTWARE[software], "batch": batch, "layout": "nchw",
            "precision": half if precision == "amp-fp16" else plain,
            "samples_per_s": f"{statistics.median(rates):.6g}", "source": f"lambdal {software}",
        }  # fmt: skip


_PRECISIONS = {"tf32": "tf32", "fp16 amp": "amp-fp16", "fp32": "fp32", "bf16 amp": "amp-bf16"}
_VIT = "vit-huge-patch14-224"


def other_rows(rows: Iterable[Row]) -> Iterator[dict[str, str]]:
    """Yield the rows of DeepLearningExamples' ResNet-50 and of torchao's ViT."""
    for row in rows:
        precision = _PRECISIONS.get(row["precision"], "")
        shared = {"gpu": row["gpu"], "gpus": row["gpus"].partition(".")[0], "precision": precision,
                  "batch": row["micro_batch"].partition(".")[0], "samples_per_s": row["samples_per_s"]}  # fmt: skip
        if row["source_repo"] == "NVIDIA/DeepLearningExamples" and row["model"] == "resnet50":
            layout = "nhwc" if precision == "amp-fp16" else "nchw"
            yield {**_TASKS["resnet50"], **shared, "torch": "1.13", "layout": layout, "source": "DeepLearningExamples"}
        if row["model"] == _VIT and row["optimizer"] == "adamw: PyTorch (fused)":
            yield {"model": "timm:vit_huge_patch14_224", "optimizer": "adamw", **shared, "torch": "2.4",
                   "framework": "compile", "layout": "nchw", "source": "torchao"}  # fmt: skip


def mapped(paths: Iterable[Path]) -> Iterator[dict[str, str]]:
    """Yield the rows of all files in the form of `capplan validate`."""
    for path in paths:
        with gzip.open(path, "rt", newline="") as stream:
            rows = list(csv.DictReader(stream))
        found = lambda_rows(rows) if "batch_per_gpu" in rows[0] else other_rows(rows)
        yield from ({"framework": "eager", "task": "train", "seq_len": "", "arg": "", **row} for row in found)


def main() -> None:
    """Map and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    words = parser.parse_args()
    with words.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(mapped(words.measured))


if __name__ == "__main__":
    main()
