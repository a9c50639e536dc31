"""Take what files of training frameworks say into a question about training, as the tool's own configuration is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Meta

from capplan.errors import UsageError
from capplan.units import whole_number
from capplan.verbs.llm.fields import LanguageModelFields
from capplan.verbs.statement.options import HERE, Field, Option, Topic, fields_of

if TYPE_CHECKING:
    from capplan.llm.core.training.stated_file import StatedFile

_Question = TypeVar("_Question", bound="TrainedModelFields")


@dataclass(frozen=True, kw_only=True)
class TrainedModelFields(LanguageModelFields):
    """The model that is trained, by its name or by a framework's file."""

    model: Annotated[
        str,
        Meta(max_length=1000),
        Option(
            help="A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, "
            "FILE.gguf; or none, where ⟨config⟩ names it.",
            served="A name that llm_models lists, such as llama-3.1-8b-instruct.",
            metavar="[MODEL]", topic=Topic.MODEL, is_argument=True,
        ),
    ] = ""  # fmt: skip
    config: Annotated[
        tuple[Path, ...],
        Meta(max_length=8),
        Option(
            is_usual=True,
            help="A file of axolotl, TRL, LLaMA-Factory, unsloth, torchtune, torchtitan, MaxText, NeMo, DeepSpeed or "
            "accelerate, or a shell script that starts one of them or Megatron, whose settings are taken; repeatable. "
            "Options other than their default win.",
            topic=Topic.MODEL, metavar="FILE", doors=HERE,
        ),
    ] = ()  # fmt: skip


def with_config(question: _Question) -> "tuple[_Question, tuple[StatedFile, ...]]":
    """Return a question with what its files state, and what was read of them.

    An option other than its default wins over them, and a later file over an earlier one.
    """
    if not question.config:
        if not question.model:
            raise UsageError("Name the MODEL, or a framework's file that does (⟨config⟩).")
        return question, ()
    from capplan.llm.read.training_files import read_training_files

    files = read_training_files(question.config, framework=getattr(question, "framework", None))
    said = _merged(files)
    fields = {field.name: field for field in fields_of(type(question))}
    taken = dict(_laid_out(said, fields))
    where = files[0].path
    values = {
        name: _value(fields[name], text, where)
        for name, text in taken.items()
        if name in fields and getattr(question, name) == fields[name].default
    }
    found = replace(question, **values)
    found = _with_run(found, said, fields)
    if not found.model:
        words = said.get("model_words")
        named = f"names its model {words!r}, which is not known here" if words else "does not name a model"
        raise UsageError(f"{where} {named}; add the MODEL.")
    searched = {*said} - {*fields} - _PLACES
    return found, tuple(
        replace(file, searched=tuple(name for name in (*file.stated, *file.defaults) if name in searched))
        for file in files
    )


_PLACES = {
    "model_words", "gpus", "nodes", "per_node", "ranks", "replicas", "global_batch", "steps", "file", "pipeline_micro",
    "layers", "chunk_layers", "device_batch", "engine", "auto_precision", "expert_ranks", "local_batch", "tf32",
}  # fmt: skip
"""What files say beside options, which options are derived from."""


def _merged(files: "tuple[StatedFile, ...]") -> dict[str, str]:
    """Return what files say together; the framework is that of the file that trains, or DeepSpeed where it shards."""
    said: dict[str, str] = {}
    trainers = [file for file in files if file.framework not in ("deepspeed", "accelerate")] or list(files)
    for file in trainers[:1]:
        said |= file.defaults
    for file in files:
        said |= file.stated
        if file.config:
            said["model"] = file.path
    said.setdefault("framework", trainers[0].framework)
    if "auto_precision" in said and not any("precision" in file.stated for file in files):
        said["precision"] = said["auto_precision"]
    engines = [file for file in files if "deepspeed" in (file.framework, file.stated.get("engine"))]
    if any(file.stated.get("shard", "none") != "none" for file in engines) and said.get("method", "full") == "full":
        said["framework"] = "deepspeed"
    return said


def _laid_out(said: Mapping[str, str], fields: Mapping[str, Field]) -> Mapping[str, str]:
    """Return what files say by the fields of a question: GPUs, ranks and micro-batches as the question counts them."""
    found = dict(said)
    whole = {name: int(text) for name, text in said.items() if whole_number(text.removeprefix("-")) is not None}
    shares = max(1, whole.get("tp", 1) * whole.get("pp", 1) * whole.get("cp", 1))
    gpus = whole.get("gpus")
    if gpus is None and "per_node" in whole:
        gpus = whole["per_node"] * whole.get("nodes", 1)
    experts = whole.get("expert_ranks", 1)  # MaxText's devices are the product of all its degrees
    ranks, replicas = whole.get("ranks", 0) * experts, whole.get("replicas", 1)
    if experts > 1:
        found["ep"] = str(experts)
    if gpus is None and ranks > 0 and replicas > 0:
        gpus = ranks * replicas * shares
    if gpus is not None:
        found["gpu_count" if "gpu_count" in fields else "counts"] = str(gpus)
        if replicas > 1 and ranks > 1:
            found["shard_group"] = str(ranks * whole.get("cp", 1))
        elif replicas > 1:
            found["shard"] = "none"
    if "tf32" in said and said.get("precision") == "fp32":
        found["precision"] = "tf32"
    if "device_batch" in said:
        found["micro_batch"] = _rank_batch(said["device_batch"], shares)
    if "chunk_layers" in whole and whole.get("layers", 0) > 0 and whole["chunk_layers"] > 0:
        found["vp"] = str(max(1, whole["layers"] // (whole["chunk_layers"] * max(1, whole.get("pp", 1)))))
    if "local_batch" in whole:  # a pipeline divides it; without one, steps accumulate by themselves
        micro = max(1, whole.get("pipeline_micro", 1)) if whole.get("pp", 1) > 1 else whole["local_batch"]
        found["micro_batch"] = str(micro)
        if whole.get("pp", 1) > 1:
            found["accumulate"] = str(max(1, whole["local_batch"] // micro))
    elif "local_batch" in said:
        found["micro_batch"] = said["local_batch"]
    sizes = [whole_number(found.get(name, "1")) or 0 for name in ("micro_batch", "accumulate")]
    if "global_batch" in fields and "global_batch" not in found and "micro_batch" in found and all(sizes):
        found["global_batch"] = str(prod(sizes) * max(1, (gpus or 1) // shares))
    return found


def _rank_batch(text: str, shares: int) -> str:
    """Return the sequences of a data-parallel rank, of which each of its GPUs has a share; else the text."""
    try:
        batch = float(text) * shares
    except ValueError:
        return text
    return str(round(batch)) if batch.is_integer() else text


def _value(field: Field, text: str, where: str) -> Any:
    from capplan.verbs.statement.options import Door
    from capplan.verbs.statement.read import read_field

    given: Any = text == "true" if bool in field.kinds else text.split(",") if field.is_list else text
    return read_field(field, given, what=f"{where}: {field.key}", door=Door.COMMAND, is_text=True)


def _with_run(question: _Question, said: Mapping[str, str], fields: Mapping[str, Field]) -> _Question:
    """Return a question with the micro-batches that its global batch needs, and the tokens of its steps."""
    asked: Any = question
    whole = {name: whole_number(said.get(name, "")) or 0 for name in ("global_batch", "steps")}
    batch = whole.get("global_batch", 0)
    if "accumulate" in fields:
        ranks = max(1, asked.gpu_count // (asked.tp * asked.pp * asked.cp))
        if batch > 0 and asked.accumulate == 1:
            of_rank, left = divmod(batch, asked.micro_batch * ranks)
            if left or not of_rank:
                raise UsageError(
                    f"a global batch of {batch} sequences is not a multiple of {asked.micro_batch} on each of {ranks} "
                    "data-parallel ranks; state other ⟨gpus⟩ or another ⟨micro-batch⟩."
                )
            asked = replace(asked, accumulate=of_rank)
        batch = asked.micro_batch * asked.accumulate * ranks
    elif "global_batch" in fields:
        batch = asked.global_batch or 0
    if "tokens" in fields and whole.get("steps", 0) > 0 and batch and asked.tokens is None and asked.samples is None:
        asked = replace(asked, tokens=float(whole["steps"] * batch * asked.seq_len))
    return asked  # type: ignore[no-any-return]  # the same question with other values
