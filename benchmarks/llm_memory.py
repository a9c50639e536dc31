"""Judge the predicted serving memory on vLLM's start-up logs, each model by constants fitted without it.

Run as `python benchmarks/llm_memory.py ../shared/data/llm/vllm-memory-h100.csv.gz`. It prints the relative errors of
the cache, of the weights, and of the tokens that the logged cache holds, per run and in sum, as a Markdown table.
"""

import csv
import gzip
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles

from capplan.core.engine_names import Engine
from capplan.llm.core.engines import EngineMemoryRules, LlmMemoryConstants
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
from capplan.llm.core.memory_fit import FittedMemory, StartupLog, fit_memory
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.specs import load_gpus

GIB = 1 << 30
LOGGED = (0, 19)
"""The version of vLLM whose start-up logs these are."""
_SAME_ARCHITECTURE = {
    "moonshotai/Kimi-Dev-72B": "qwen2.5-72b-instruct",
    "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8": "mistral-small-3.1-24b-2503",
    "RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic": "qwen2.5-7b-instruct",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8": "llama-3.1-8b-instruct",
}
_FORMATS = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One logged start with the model that it served."""

    model: LanguageModel
    row: dict[str, str]

    @property
    def weights(self) -> str | None:
        """Return the weight format, None for the checkpoint's own."""
        stated = self.row["quantization"]
        if stated == "compressed-tensors":
            return "fp8" if "fp8" in self.row["model"] else "int8"
        return _FORMATS[self.row["dtype"]] if stated == "None" else stated

    def size(self, column: str) -> float:
        """Return a logged size. [bytes]"""
        return float(self.row[column]) * GIB

    def log(self) -> StartupLog:
        """Return what a fit needs of the run."""
        return StartupLog(
            architecture=self.model.architecture,
            tensor=int(self.row["tp"]),
            pipeline=int(self.row["pp"]),
            element_bytes=4 if self.weights == "fp32" else 2,
            max_sequences=1024,
            batched_tokens=8192,
            activation_bytes=self.size("activation_memory_gib"),
            other_bytes=self.size("non_torch_forward_gib"),
            graph_bytes=self.size("cuda_graph_actual_gib"),
        )


def read_runs(path: Path) -> list[Run]:
    """Return the runs whose models the catalogue knows."""
    with gzip.open(path, "rt") as stream:
        rows = list(csv.DictReader(stream))
    found = [(find_in_catalogue(_SAME_ARCHITECTURE.get(row["model"], row["model"])), row) for row in rows]
    return [Run(model=model, row=row) for model, row in found if model is not None]


def with_fit(constants: LlmMemoryConstants, fitted: FittedMemory) -> LlmMemoryConstants:
    """Return the constants with the newest vLLM's replaced by fitted ones."""
    old = constants.find(Engine.VLLM, LOGGED)
    activation = replace(
        old.activation,
        sampler_bytes_per_vocab=fitted.sampler_bytes_per_vocab,
        sampler_bytes_per_hidden=fitted.sampler_bytes_per_hidden,
        fixed_bytes=fitted.fixed_bytes,
        vision_bytes=old.activation.vision_bytes if fitted.vision_bytes is None else fitted.vision_bytes,
    )
    new: EngineMemoryRules = replace(old, activation=activation, other_bytes={**old.other_bytes, **fitted.other_bytes})
    return replace(constants, engines=tuple(new if each is old else each for each in constants.engines))


def errors(run: Run, constants: LlmMemoryConstants) -> tuple[float, float, float]:
    """Return the relative errors of the cache, of the weights, and of the tokens of the logged cache."""
    request = StatedDeployment(
        model=run.model,
        gpu=load_gpus().find("h100-sxm5-80gb"),
        sharding=Sharding(tensor=int(run.row["tp"]), pipeline=int(run.row["pp"])),
        weights=run.weights,
        kv="fp8" if run.row["kv_cache_dtype"] == "fp8" else None,
        fraction=float(run.row["gpu_memory_utilization"]),
        version=LOGGED,
    )
    stage = answer_memory(request, constants, alternatives=False).stage
    known = answer_memory(replace(request, pool_bytes=run.size("kv_cache_memory_gib")), constants, alternatives=False)
    tokens = known.kv_tokens or 0
    return (
        stage.pool_bytes / run.size("kv_cache_memory_gib") - 1,
        stage.weight_bytes / run.size("weights_memory_gib") - 1,
        tokens / int(run.row["kv_cache_tokens"]) - 1,
    )


def summary(name: str, values: Sequence[float]) -> str:
    """Return median, 90th percentile and maximum of absolute errors as a row."""
    sizes = [100 * abs(value) for value in values]
    return f"| {name} | {median(sizes):.2f} % | {quantiles(sizes, n=10)[-1]:.2f} % | {max(sizes):.2f} % |"


def main(path: Path) -> None:
    """Print the errors per run and in sum.

    Args:
        path: The logs.
    """
    runs, constants = read_runs(path), load_llm_memory()
    found = []
    print(f"| model | tp | pp | format | cache | weights | tokens of the logged cache |\n{'| --- ' * 7}|")
    for run in runs:
        others = [other.log() for other in runs if other.model.architecture.name != run.model.architecture.name]
        result = errors(run, with_fit(constants, fit_memory(others)))
        found.append(result)
        cells = " | ".join(f"{100 * value:+.2f} %" for value in result)
        name, row = run.model.architecture.name, run.row
        print(f"| {name} | {row['tp']} | {row['pp']} | {run.weights or 'own'} | {cells} |")
    print(f"\n{len(runs)} runs\n\n| absolute error | median | 90th percentile | largest |\n| --- | --- | --- | --- |")
    for name, values in zip(("cache", "weights", "tokens of the logged cache"), zip(*found, strict=True), strict=True):
        print(summary(name, values))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
