"""Trace every model of a zoo and say what did not trace, by cause.

    python benchmarks/coverage.py torchvision timm transformers --output docs/evidence/coverage.md

takes an hour on one core. Rows go to OUTPUT's name with .csv as they are made; `--resume` goes on from there, and with
`--only` renews the rows of these models.
Transformers architectures are made small (two layers, eight experts, narrow MLPs); parts of others are left out.
"""

import argparse
import collections
import csv
import gc
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any, TextIO

from pages import write_section

import capplan.probe.trace.tracer
from capplan.core.ops.flops import uncounted
from capplan.core.workload import Configuration
from capplan.errors import CapplanError
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

LIMIT_S = 30
LARGEST_REAL_BYTES = 200_000_000
"""Weights up to which the last backend, a real forward, is tried: larger ones take minutes. [bytes]"""

LAYER_KEYS = {
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_encoder_layers",
    "num_decoder_layers", "depth", "vision_num_hidden_layers", "num_block_layers",
}  # fmt: skip
WIDTH_KEYS = {
    "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "ffn_dim", "encoder_ffn_dim",
    "decoder_ffn_dim", "d_ff",
}  # fmt: skip
EXPERT_KEYS = {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}
PARTS = (
    "_vision", "_vision_model", "_text", "_text_model", "_encoder", "_decoder", "_audio", "_audio_model", "_qformer",
    "_vqgan", "_vqmodel", "_tokenizer", "_thinker", "_assistant", "_patcher", "_transformer", "_det_model",
    "_vit_model", "_tokenizer_encoder", "_tokenizer_decoder", "_backbone", "_wrapper", "_word_timestamp",
    "_diarization", "_depth_decoder_model", "_image_model", "_multimodal_model", "_image_codebook", "_dit", "_talker",
    "_code_predictor", "_bigvgan", "_hifigan", "_adapter", "_perceiver", "_perciever", "_head", "_token2wav", "_module",
    "_resnet", "_lcnet", "_lcnet_v3", "_lcnet_v4", "_depth", "_lw_detr_vit", "_dinov2", "_diffusion",
)  # fmt: skip
"""Endings of architectures that are parts of others."""

NOT_HERE = ("has no model class", "requires the", "needs a library that is not installed")
"""What says that transformers itself cannot call an architecture here: it only generates, or lacks a library."""

FIELDS = (
    "zoo",
    "model",
    "outcome",
    "cause",
    "class_name",
    "backend",
    "assumed_values",
    "uncounted",
    "operators",
    "seconds",
)


def names_of(zoo: str) -> list[str]:
    if zoo == "torchvision":
        from capplan.probe.target.sources.image_zoos import torchvision_names

        return sorted(torchvision_names())
    if zoo == "timm":
        from capplan.probe.target.sources.image_zoos import timm_names

        return sorted(timm_names())
    from capplan.probe.target.sources.transformers import import_transformers

    return sorted(name for name in import_transformers().CONFIG_MAPPING if not name.endswith(PARTS))


def small_arguments(content: dict[str, Any], prefix: str = "") -> dict[str, int]:
    """Config arguments that leave an architecture as it is but for its depth, MLP width and number of experts."""
    found: dict[str, int] = {}
    for key, value in content.items():
        if isinstance(value, dict) and key.endswith("config") and key != "quantization_config":
            found |= small_arguments(value, f"{prefix}{key}.")
        elif isinstance(value, int) and not isinstance(value, bool):
            if key in LAYER_KEYS and value > 2:
                found[prefix + key] = 2
            elif key in EXPERT_KEYS and value > 8:
                found[prefix + key] = 8
            elif key in WIDTH_KEYS and value > 256:
                found[prefix + key] = 256
    return found


def requests_for(zoo: str, name: str) -> list[InputRequest]:
    """What to try: a small config first, then, where its parts contradict each other, the default one."""
    if zoo != "transformers":
        return [InputRequest()]
    from capplan.probe.target.sources.transformers import make_config

    small = small_arguments(make_config(name, {"model_type": name}, {}).to_dict())
    small = {key: value for key, value in small.items() if not key.startswith("backbone_config")}
    return [InputRequest(arguments=tuple(small.items())), InputRequest()]


def trace_one(zoo: str, name: str) -> dict[str, Any]:
    words = f"{'hf' if zoo == 'transformers' else zoo}:{name}"
    started = time.process_time()
    row: dict[str, Any] = {"zoo": zoo, "model": name, "outcome": "traced"}
    try:
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S, 2)  # again and again: each backend swallows one
        target, module_error = None, None
        for request in requests_for(zoo, name):
            try:
                target = load_target(words, request=request)
                trace = trace_target(target)
                break
            except CapplanError as error:
                module_error = module_error or error
        else:
            raise module_error or CapplanError("nothing to try")
        recording = trace.recording(Configuration())
        row |= {
            "class_name": trace.class_name,
            "backend": recording.backend,
            "assumed_values": sum(each.count for each in recording.assumed_values),
            "uncounted": " ".join(uncounted(recording)),
            "operators": len(recording.ops),
        }
    except CapplanError as error:
        skipped = any(words in str(error) for words in NOT_HERE)
        row |= {"outcome": "skipped" if skipped else "failed", "cause": one_line(error)}
    except BaseException as error:  # a bug of the tracer is a row of the table, not the end of it
        if isinstance(error, KeyboardInterrupt):
            raise
        row |= {"outcome": "bug", "cause": f"{type(error).__name__}: {one_line(error)}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return row | {"seconds": round(time.process_time() - started, 2)}


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def report(rows: list[dict[str, Any]]) -> str:
    lines = ["Made by `python benchmarks/coverage.py torchvision timm transformers`.", ""]
    lines += [
        "| zoo | models | traced | share | with assumed values | with uncounted operators |",
        "|---|---|---|---|---|---|",
    ]
    for zoo in dict.fromkeys(row["zoo"] for row in rows):
        own = [row for row in rows if row["zoo"] == zoo and row["outcome"] != "skipped"]
        traced = [row for row in own if row["outcome"] == "traced"]
        guessed = sum(int(row["assumed_values"] or 0) > 0 for row in traced)
        partly = sum(bool(row["uncounted"]) for row in traced)
        share = 100 * len(traced) / len(own)
        lines.append(f"| {zoo} | {len(own)} | {len(traced)} | {share:.1f} % | {guessed} | {partly} |")
    left_out = sum(row["outcome"] == "skipped" for row in rows)
    why = "they have no class that can be called, or need a library that is not installed"
    lines += ["", f"{left_out} of those listed below are not counted: {why}."]
    lines += ["", "## What did not, by cause", "", "| zoo | models | cause |", "|---|---|---|"]
    causes: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for row in rows:
        if row["outcome"] != "traced":
            cause = row["cause"].split(" failed: ")[-1].replace(row["model"], "MODEL").replace("|", "\\|")
            causes[row["zoo"], cause].append(row["model"])
    lines += [f"| {zoo} | {', '.join(models)} | {cause} |" for (zoo, cause), models in sorted(causes.items())]
    return "\n".join(lines) + "\n"


def out_of_time(*_: Any) -> None:
    raise TimeoutError(f"over {LIMIT_S} CPU seconds")


def write_rows(rows: list[dict[str, Any]], file: TextIO) -> "csv.DictWriter[str]":
    writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return writer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoos", nargs="+", choices=("torchvision", "timm", "transformers"))
    parser.add_argument("--every", type=int, default=1, help="trace one of so many models")
    parser.add_argument("--only", nargs="*", help="trace these models")
    parser.add_argument("--output", type=Path, default=Path("docs/evidence/coverage.md"))
    parser.add_argument("--resume", action="store_true", help="keep the rows of an earlier, unfinished run")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    capplan.probe.trace.tracer.LARGEST_REAL_BYTES = LARGEST_REAL_BYTES
    signal.signal(signal.SIGPROF, out_of_time)
    table = options.output.with_suffix(".csv")
    rows = list(csv.DictReader(table.open())) if options.resume and table.exists() else []
    places = {(row["zoo"], row["model"]): place for place, row in enumerate(rows)}
    rows = [row for row in rows if row["zoo"] not in options.zoos or row["model"] not in (options.only or ())]
    done = {(row["zoo"], row["model"]) for row in rows}
    with table.open("w", newline="") as file:
        writer = write_rows(rows, file)
        for zoo in options.zoos:
            for name in options.only or names_of(zoo)[:: options.every]:
                if (zoo, name) in done:
                    continue
                row = dict.fromkeys(FIELDS, "") | trace_one(zoo, name)
                rows.append(row)
                writer.writerow(row)
                file.flush()
                print(f"{zoo}:{name} {row['outcome']} {row['seconds']} s {row['cause']}", file=sys.stderr)
                gc.collect()
    rows.sort(key=lambda row: places.get((row["zoo"], row["model"]), len(places)))
    with table.open("w", newline="") as file:
        write_rows(rows, file)
    write_section(options.output, "coverage.py", report(rows))


if __name__ == "__main__":
    main()
