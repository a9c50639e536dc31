"""Read measured training runs: CSV files, plain or compressed, one run a row."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.layers import Attention, DenseMlp, Experts
from capplan.llm.core.training.accuracy import MeasuredTraining
from capplan.llm.core.training.frameworks import FRAMEWORKS, States, TrainingFramework, find_framework
from capplan.llm.core.training.job import (
    ALL_LINEAR,
    Adapter,
    AttentionImplementation,
    BaseFormat,
    Compute,
    Method,
    Offloaded,
    OptimizerRecipe,
    Recompute,
    Shard,
    TrainingJob,
    TrainingLayout,
    adapter_targets,
    check_job,
    default_shard,
)
from capplan.llm.core.training.memory import MemoryScope
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.llm.read.run_rows import RunFile, number, read_runs
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import read_versioned
from capplan.tables import UnreadableRowError

REQUIRED = ("model", "gpu", "framework")
_GIB = 2**30
_LARGEST_COUNT, _MOST_LAYERS = 10**8, 2000
"""What is read at most, so that one wrong row cannot stop a validation."""

_OFFLOADED = (
    ("optimizer", Offloaded.OPTIMIZER), ("param", Offloaded.PARAMETERS), ("activation", Offloaded.ACTIVATIONS),
)  # fmt: skip


@cache
def _meanings() -> Mapping[str, Mapping[str, str]]:
    columns: Mapping[str, Mapping[str, str]] = read_versioned(
        calibration_file("training-words.yaml"), what="words of training runs", version=1, shown="training-words.yaml"
    )["columns"]
    return columns


def _meant(column: str, text: str) -> str | None:
    """Return what the text of a column means; None where none of its patterns is found."""
    return next((meant for pattern, meant in _meanings()[column].items() if re.search(pattern, text.lower())), None)


def read_training(path: Path) -> RunFile[MeasuredTraining]:
    """Read the measured training runs of a CSV file.

    Args:
        path: A CSV, plain or gzip-compressed, with the columns model, gpu and framework, and others such as gpus,
            seq_len, micro_batch, tp, pp, sharding, activation_checkpointing, tokens_per_s_per_gpu, peak_memory_gib.

    Raises:
        UsageError: The file cannot be read or lacks a column.
    """
    return read_runs(path, parse_training, required=REQUIRED, what="a table of training runs")


def parse_training(row: Mapping[str, str], line: int) -> MeasuredTraining:
    """Read one run from its columns.

    Raises:
        CapplanError: The job is not possible or not known.
        ValueError: A value is missing or wrong; the text says which.
    """
    if row.get("size_class") in ("vision", "bert"):
        raise UnreadableRowError(f"a model of class {row['size_class']} is not a decoder of text")
    framework = _framework(row)
    architecture = _architecture(row)
    method, adapter = _method(row)
    layout = _layout(row, framework)
    sequence = _count(row, "seq_len", None)
    micro_batch, accumulation = _batches(row, layout)
    recompute, is_stated = _recompute(row, framework)
    offloaded = row.get("offload", "").lower()
    job = TrainingJob(
        architecture=architecture,
        framework=framework,
        method=method,
        adapter=adapter,
        base=_base(row, method),
        compute=_compute(row),
        states=_states(row, framework, method),
        optimizer=OptimizerRecipe(_meant("optimizer", row.get("optimizer", "")) or OptimizerRecipe.ADAMW),
        layout=layout,
        sequence_tokens=sequence,
        micro_batch=micro_batch,
        accumulation=accumulation,
        recompute=recompute,
        attention=_attention(row, framework),
        compiled=_is_true(row, "compile") or framework.compiles,
        offloaded=frozenset(item for word, item in _OFFLOADED if word in offloaded),
    )
    check_job(job)
    return MeasuredTraining(
        job=job,
        gpu=row["gpu"],
        model=row["model"],
        source=row.get("source_repo", ""),
        framework=framework.name,
        quality=row.get("quality", "") or "B",
        line=line,
        row=row.get("row_id", "") or str(line),
        recompute_is_stated=is_stated,
        month=_month(row),
        tokens_per_s=_speed(row, job),
        peak_bytes=(number(row, "peak_memory_gib") or 0.0) * _GIB or None,
        peak_kind=MemoryScope(_meant("memory_kind", row.get("memory_kind", "")) or MemoryScope.ALLOCATED),
        ran_out=row.get("outcome", "") == "oom",
        network_bytes_per_s=_network(row, layout),
    )


def _month(row: Mapping[str, str]) -> str:
    """Return when a run was published, YYYY-MM, or the year alone where no month is stated."""
    found = re.search(r"20\d\d(-\d\d)?", row.get("date_or_version", ""))
    if found:
        return found[0]
    release = re.match(r"(2\d)\.(\d\d)", row.get("date_or_version", ""))  # NVIDIA's containers, such as 24.07
    return f"20{release[1]}-{release[2]}" if release else ""


def _framework(row: Mapping[str, str]) -> TrainingFramework:
    """Return the framework of a row: the one of its name, else the nearest by parts of the name, else by its layout."""
    name = row["framework"].strip().lower()
    if "composer" in row.get("framework_version", ""):
        name = "composer"
    if "factory" in row.get("framework_version", "").lower() and name == "hf-trainer":
        name = "llama-factory"
    known = {framework.name for framework in FRAMEWORKS}
    month = _month(row) or None
    if name in known:
        return find_framework(name, month=month)
    if (meant := _meant("framework", name)) is not None:
        return find_framework(meant, month=month)
    if (number(row, "tp") or 1) > 1 or (number(row, "pp") or 1) > 1:
        return find_framework("megatron")
    return find_framework("trl" if row.get("task", "") in ("lora", "qlora") else "fsdp2")


def _is_true(row: Mapping[str, str], name: str) -> bool:
    return row.get(name, "").lower() in ("1", "true")


def _count(row: Mapping[str, str], name: str, default: int | None) -> int:
    value = number(row, name)
    if value is None or value < 1:
        if default is None:
            raise UnreadableRowError(f"{name} is not stated")
        return default
    if value > _LARGEST_COUNT:
        raise UnreadableRowError(f"{name} is {value:g}, which is more than {_LARGEST_COUNT:g}")
    return round(value)


def _architecture(row: Mapping[str, str]) -> Architecture:
    """Return the built-in model, with its windows and kinds of attention; else build one from the row's columns."""
    known = find_in_catalogue(row["model"]) or find_in_catalogue(f"{row['model']}-instruct")
    if known is not None and _agrees(known.architecture, row):
        return known.architecture
    for word in row.get("note", "").split(";"):
        if word.strip() in _DESIGNS:
            raise UnreadableRowError(f"{_DESIGNS[word.strip()]}, and the model is not built in")
    if not row.get("hidden") or not row.get("layers"):
        raise UnreadableRowError("its layers are not stated, and the model is not built in")
    hidden = _count(row, "hidden", None)
    tensor = _count(row, "tp", 1)
    heads = _count(row, "heads", max(1, hidden // (128 * tensor)) * tensor)  # heads of 128 are the most common
    head_dim = _count(row, "head_dim", hidden // heads)
    layers = _count(row, "layers", None)
    if layers > _MOST_LAYERS:
        raise UnreadableRowError(f"layers is {layers}, which is more than {_MOST_LAYERS}")
    gated = _is_true(row, "gated")
    attention = Attention(
        query_heads=heads, kv_heads=_count(row, "kv_heads", heads), key_dim=head_dim, value_dim=head_dim
    )
    width = _count(row, "ffn", 4 * hidden)
    experts = _count(row, "experts", 1)
    mlp: DenseMlp | Experts = DenseMlp(width=width, gated=gated)
    if experts > 1:
        mlp = Experts(
            count=experts,
            per_token=_count(row, "topk", 1),
            width=_count(row, "moe_ffn", width),
            gated=gated,
            shared_width=round(number(row, "shared_ffn") or 0),
        )
    layer = Layer(mixer=attention, mlp=mlp, norm_parameters=2 * hidden)
    return Architecture(
        name=row["model"],
        family="columns",
        hidden_dim=hidden,
        vocab_size=_count(row, "vocab", 51200),
        layers=(layer,) * layers,
        tied_embeddings=_is_true(row, "tied_embeddings"),
        max_positions=None,
        norm_parameters=hidden,
    )


_DESIGNS = {
    "mla": "its attention is latent, of which no widths are columns",
    "mtp 1": "it predicts several tokens at once, by layers that no columns describe",
}
"""Words of notes that describe a design that columns cannot describe."""


def _agrees(architecture: Architecture, row: Mapping[str, str]) -> bool:
    """Return True if what a row states of its model is what is known of the built-in one of its name."""
    known = {"hidden": architecture.hidden_dim, "layers": len(architecture.layers)}
    return all(number(row, name) in (None, size) for name, size in known.items())


def _method(row: Mapping[str, str]) -> tuple[Method, Adapter]:
    task = row.get("task", "") or "pretrain"
    rank = _count(row, "lora_rank", 8)
    if task in ("pretrain", "sft", "full", "finetune", "fine-tuning", "cpt", "continued pretraining"):
        return Method.FULL, Adapter()
    targets = _adapter_targets(row.get("lora_targets", ""))
    if task in ("lora", "qlora"):
        method = Method.QLORA if row.get("base_quant", "") else Method.LORA
        return method, Adapter(rank=rank, targets=targets)
    raise UnreadableRowError(f"the method {task!r} is not full training, LoRA or QLoRA")


def _adapter_targets(text: str) -> tuple[str, ...]:
    """Return the matrices of a row's list; ("q", "v"), the default of PEFT, where none is stated."""
    if not text:
        return ("q", "v")
    if text.lower().startswith("attention"):
        return adapter_targets(["attention"])
    if text.lower() in ("all linear", "all-linear", "all"):
        return ALL_LINEAR
    return adapter_targets([word for word in re.split(r"[,\s]+", text) if word])


def _layout(row: Mapping[str, str], framework: TrainingFramework) -> TrainingLayout:
    tensor, pipeline, context = (_count(row, name, 1) for name in ("tp", "pp", "cp"))
    expert = _count(row, "ep", 1)
    data = _count(row, "dp", 0) if row.get("dp") else 0
    product = tensor * pipeline * context
    stated = number(row, "gpus")
    if stated:
        gpus = round(stated)
    elif data:
        gpus = product * data
    else:
        raise UnreadableRowError("neither gpus nor dp is stated")
    if gpus % product and data:
        gpus = product * data
    ranks = max(1, gpus // product) * context
    shard = default_shard(framework, ranks=ranks)
    if "sharding" in row:
        text = (row["sharding"] or "none").lower()
        if (meant := _meant("sharding", text)) is None:
            raise UnreadableRowError(f"sharding {text!r} is not one of {_SHARDINGS}")
        shard = Shard(meant)
    is_hybrid = any(word in row.get("sharding", "").lower() for word in ("hybrid", "hsdp"))
    group = _count(row, "shard_group", 8) if row.get("shard_group") or is_hybrid else None
    experts = _count(row, "experts", 1)
    stage = tensor * max(1, gpus // product) * context
    return TrainingLayout(
        gpus=gpus,
        tensor=tensor,
        pipeline=pipeline,
        virtual=_count(row, "vp", 1) if pipeline > 1 else 1,
        context=context,
        expert=min(expert, max(1, experts if experts > 1 else expert)),
        expert_tensor=tensor if expert == 1 and experts > 1 and stage % tensor == 0 else 1,
        sequence_parallel=_is_true(row, "sequence_parallel") if row.get("sequence_parallel") else tensor > 1,
        shard=shard,
        shard_group=group,
        gpus_per_node=_count(row, "gpus_per_node", 8),
        zero_bubble="zero" in row.get("pipeline_schedule", "").lower(),
    )


_SHARDINGS = "none, ddp, zero0, zero1, distributed, zero2, grad_op, zero3, full_shard, fsdp, hybrid, hsdp, fsdp2"


def _batches(row: Mapping[str, str], layout: TrainingLayout) -> tuple[int, int]:
    """Return the micro-batch and the micro-batches of a step; what lacks follows from the global batch."""
    micro, accumulation = number(row, "micro_batch"), number(row, "grad_accum")
    whole = number(row, "global_batch")
    ranks = layout.data
    if micro is None and whole:
        micro = max(1.0, whole / ranks / (accumulation or 1))
    if micro is None:
        micro = 1.0
    if accumulation is None:
        accumulation = max(1.0, whole / ranks / micro) if whole and micro else 1.0
    return max(1, round(micro)), max(1, round(accumulation))


def _recompute(row: Mapping[str, str], framework: TrainingFramework) -> tuple[Recompute, bool]:
    text = row.get("activation_checkpointing", "").lower()
    if not text:
        return Recompute.NONE, False
    if text in ("none", "0", "no", "off"):
        return Recompute.NONE, True
    if text.startswith("full") or text in ("1", "yes"):
        return Recompute.FULL, True
    if framework.name == "fsdp1":
        return Recompute.NONE, False  # selective there means a share of the layers that is not stated
    if "op" in text or framework.name in ("torchtitan", "fsdp2"):
        return Recompute.OPERATORS, True
    return Recompute.ATTENTION, True


def _base(row: Mapping[str, str], method: Method) -> BaseFormat:
    if method is Method.QLORA:
        text = row["base_quant"].lower()
        if text in {item.value for item in BaseFormat}:
            return BaseFormat(text)
        return BaseFormat.INT8 if "8" in text else BaseFormat.NF4_DQ if "d" in text else BaseFormat.NF4
    if method is Method.LORA and row.get("precision", "").startswith("fp8"):
        return BaseFormat.FP8
    return BaseFormat.BF16


_BIGSCIENCE_RUNS, _FIRST_BF16_SECTION = "DeepSpeed ZeRO-1 + Megatron", "section Rebalancing layers"
"""Notes on runs of bigscience's chronicle: those before this section used DeepSpeed's optimizer of fp16, as the section
says, and the column names the format of the whole project. The same layout takes 44 GiB before and 65 to 67 after."""


def _compute(row: Mapping[str, str]) -> Compute:
    text = (row.get("precision", "") or "bf16").lower()
    note = row.get("note", "")
    if note.startswith(_BIGSCIENCE_RUNS) and _FIRST_BF16_SECTION not in note:
        return Compute.FP16
    if (meant := _meant("precision", text)) is not None:
        return Compute(meant)
    raise UnreadableRowError(f"precision {text!r} is not known")


def _states(row: Mapping[str, str], framework: TrainingFramework, method: Method) -> States:
    stated = row.get("optimizer_dtype", "").lower()
    if "bf16 params" in stated:
        return States.PURE
    if row.get("precision", "").lower() in ("bf16-true", "full bf16") and method is Method.FULL:
        return States.PURE
    if row.get("precision", "").lower() in ("fp32", "tf32"):
        return States.AUTOCAST
    return framework.states


def _attention(row: Mapping[str, str], framework: TrainingFramework) -> AttentionImplementation:
    if (meant := _meant("attention", row.get("attention", ""))) is not None:
        return AttentionImplementation(meant)
    return AttentionImplementation.TUNED if framework.tunes_attention else AttentionImplementation.FLASH


def _speed(row: Mapping[str, str], job: TrainingJob) -> float | None:
    """Return the tokens per second of one GPU, which is stated, or follows from the time of a step."""
    note = row.get("note", "")
    if row.get("size_class") == "tiny-ci" or "CI functional test" in note:
        return None  # tests of features on tiny models, whose deterministic kernels nobody trains with
    if "speed includes warm-up" in note:
        return None  # a source's own warning: two or three steps, of which the first loads kernels
    stated = number(row, "tokens_per_s_per_gpu")
    if stated:
        return stated
    time_s = number(row, "step_time_s")
    batch = number(row, "global_batch")
    if not time_s or not batch or "mixed length" in note:
        return None
    return batch * job.sequence_tokens / time_s / job.layout.gpus


_PORT_GBIT_PER_S = {"NDR": 400.0, "HDR": 200.0, "EDR": 100.0}
"""What ports of InfiniBand carry, by their generation."""


def _network(row: Mapping[str, str], layout: TrainingLayout) -> float | None:
    """Return one GPU's share of the fastest network that the row states, one direction. [bytes/s]

    Rows write "400 Gb/s per GPU", "1600 Gb/s per node", "8x ConnectX-7 IB NDR 400Gb/s", or the port's generation alone.
    """
    if layout.gpus <= layout.gpus_per_node:
        return None
    parts = re.split(r"[,;+]", row.get("interconnect", ""))
    computing = [part for part in parts if "Compu" in part]  # beside networks for storage and management
    shares = [_port_share(part, gpus_per_node=layout.gpus_per_node) for part in computing or parts]
    return max((share for share in shares if share is not None), default=None)


def _port_share(text: str, *, gpus_per_node: int) -> float | None:
    """Return one GPU's share of the ports that words name; None up to 25 Gbit/s a server. [bytes/s]"""
    printed = re.search(r"(\d+)\s*Gb", text)
    generation = next((rate for name, rate in _PORT_GBIT_PER_S.items() if name in text), 0.0)
    rate = float(printed[1]) if printed else generation
    count = re.search(r"(\d+)\s*[x×]\s", text)
    ports = float(count[1]) if count else 1.0
    is_per_gpu = "per GPU" in text or (not count and "per node" not in text and rate >= _PORT_GBIT_PER_S["HDR"])
    share = rate if is_per_gpu else rate * ports / gpus_per_node
    return share * 1e9 / 8 if rate * ports > 25 else None
