"""Read SWEEP.yaml: which models, on which GPUs, under which workloads."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from capplan.core.gpus.spec import Segment
from capplan.core.quantisation.schemes import find_scheme
from capplan.core.sweep.definition import (
    SERVING,
    AnyConditions,
    Conditions,
    Definition,
    GpuEntry,
    ModelEntry,
    PipelineEntry,
    ServingConditions,
    workload_label,
)
from capplan.core.workload import BatchChoice, Batches, Mode
from capplan.errors import CapplanError, UsageError
from capplan.specs.strict_yaml import Tree, read_yaml
from capplan.verbs.llm.estimate import LlmEstimateQuestion
from capplan.verbs.plan import PlanQuestion
from capplan.verbs.statement.fields import ModelFields, PipelineItemFields, TrainingFields, from_fields
from capplan.verbs.statement.file_keys import KeyReader, fields_by_key
from capplan.verbs.statement.options import Door, Field, fields_of

_KEYS = ("models", "gpus", "workloads")
_GPU_KEYS = ("names", "where", "segment", "vendor", "arch", "min_memory")
_TRAINING_KEYS = tuple(field.key for field in fields_of(TrainingFields) if field.option.doors & Door.SWEEP)
_Member = TypeVar("_Member", bound=StrEnum)
_IN_WORKLOADS = ("weights", "activations")
"""Fields of a model's layers that stand in a workload, because they multiply with number formats."""
_OF_PIPELINES = fields_by_key(fields_of(PipelineItemFields), Door.SWEEP)
_OF_MODELS = {**fields_by_key(fields_of(ModelFields), Door.SWEEP), **_OF_PIPELINES}
_MODEL_KEYS = tuple(name for name in _OF_MODELS if name not in _IN_WORKLOADS)
_WORKLOAD_FIELDS = {
    **{
        name: field
        for name, field in fields_by_key(fields_of(PlanQuestion), Door.SWEEP).items()
        if name not in _OF_MODELS
    },
    **{name: _OF_MODELS[name] for name in _IN_WORKLOADS},
}
"""The keys of a workload beside `mode`, with the fields of a plan's question that they set."""
_OF_REPLICAS = fields_by_key(fields_of(LlmEstimateQuestion), Door.SWEEP)
_SERVING_FIELDS = {**{key: _OF_REPLICAS[key] for key in ("engine", "tp", "input_len", "output_len")}, **_OF_REPLICAS}
"""The keys of a workload of serving, with the fields that they set, in the order in which folders hold workloads."""
_CLIENTS = (1, 8, 32)
"""Clients at a time where a workload of serving states none."""


def read_sweep_file(path: Path) -> Definition:
    """Read a sweep's file."""
    return read_sweep_tree(read_yaml(path), shown=str(path))


def read_sweep_tree(tree: Tree, *, shown: str) -> Definition:
    """Read a sweep from values as YAML holds them."""
    reader = _SweepReader(shown, shown)
    reader.unknown_keys(tree, _KEYS, "")
    for key in ("models", "gpus"):
        if key not in tree:
            reader.refuse(key, _MISSING[key])
    definition = Definition(
        models=reader.models(tree.get("models", [])),
        gpus=reader.gpus(tree.get("gpus", [])),
        workloads=reader.workloads(tree.get("workloads", [{}])),
    )
    reader.finish({})
    return definition


_MISSING = {
    "models": 'is missing; list models, such as [torchvision:resnet18, "timm:vit_tiny*"]',
    "gpus": 'is missing; list GPUs, such as [l4, a100], or a filter such as {where: "memory >= 24GiB"}',
}


class _SweepReader(KeyReader):
    """Reads the three parts of the file and gathers what is wrong with them."""

    def models(self, given: object) -> tuple[ModelEntry, ...]:
        """Read names, globs, files and folders, each a text or a mapping with a model's options."""
        items = given if isinstance(given, list) else [given]
        if not items:
            self.refuse("models", _MISSING["models"].replace("is missing", "is empty"))
        return tuple(entry for index, item in enumerate(items) for entry in self._models(f"models[{index}]", item))

    def _models(self, key: str, given: object) -> tuple[ModelEntry, ...]:
        """Read one entry, which stands for several where a pipeline's parameters or parts have lists of values."""
        if isinstance(given, str) and given.strip():
            return (ModelEntry(words=given.strip()),)
        if not isinstance(given, dict):
            self.refuse(key, f"must be a model's name, a glob, a file or a folder, not {given!r}")
            return ()
        entry = self._model(key, given)
        return (
            ()
            if entry is None
            else tuple(replace(entry, pipeline=pipeline) for pipeline in self._pipelines(key, given))
        )

    def _pipelines(self, key: str, given: Tree) -> Iterator[PipelineEntry]:
        """Read what is stated of a pipeline: the product of all lists."""
        settings, parts = (self._choices(f"{key}.{name}", given.get(name, {})) for name in ("set", "part"))
        offloads = self._values(f"{key}.offload", _OF_PIPELINES["offload"], given.get("offload"))
        for setting, part, offload in itertools.product(settings, parts, offloads):
            for name, value in setting:
                if isinstance(value, str):
                    self.refuse(f"{key}.set.{name}", f"must be a number or a list of numbers, not {value!r}")
                    return
            yield PipelineEntry(settings=setting, part_settings=part, offload=offload)

    def _choices(self, key: str, given: object) -> list[tuple[tuple[str, Any], ...]]:
        """Return each way to choose one value of every name."""
        if not isinstance(given, dict):
            self.refuse(key, f"must be keys with values, such as {{steps: [20, 28]}}, not {given!r}")
            return []
        values = {str(name): _as_list(value) for name, value in given.items()}
        for name, choices in values.items():
            if not choices or not all(isinstance(value, str | int | float) for value in choices):
                self.refuse(f"{key}.{name}", f"must be a value or a list of values, not {given[name]!r}")
                return []
        return [tuple(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]

    def _model(self, key: str, given: Tree) -> ModelEntry | None:
        self.unknown_keys(given, _MODEL_KEYS, f"{key}.")
        words = self.words(given, ("model", "input_size", "inputs_from"), prefix=f"{key}.")
        if "model" not in words:
            self.refuse(f"{key}.model", "is missing; name the model, such as torchvision:resnet18")
            return None
        tokens = {
            name: self.field(f"{key}.{name}", _OF_MODELS[name], given[name], door=Door.SWEEP)
            for name in ("seq_len", "new_tokens")
            if given.get(name) is not None
        }
        return ModelEntry(
            words=words["model"],
            arg=self._texts(f"{key}.arg", given.get("arg", [])),
            inputs=self._texts(f"{key}.input", given.get("input", [])),
            input_size=words.get("input_size"),
            inputs_from=words.get("inputs_from"),
            prepare=self._texts(f"{key}.prepare", given.get("prepare", [])),
            freeze=self._texts(f"{key}.freeze", given.get("freeze", [])),
            **tokens,
        )

    def gpus(self, given: object) -> tuple[GpuEntry, ...]:
        """Read ids and families, or filters over all GPUs; a list may hold both."""
        items = given if isinstance(given, list) else [given]
        if not items and given is not None:
            self.refuse("gpus", _MISSING["gpus"].replace("is missing", "is empty"))
        one = not isinstance(given, list)
        entries = [self._gpu("gpus" if one else f"gpus[{index}]", item) for index, item in enumerate(items)]
        return tuple(entry for entry in entries if entry is not None)

    def _gpu(self, key: str, given: object) -> GpuEntry | None:
        if isinstance(given, str) and given.strip():
            return GpuEntry() if given.strip() == "all" else GpuEntry(names=(given.strip(),))
        if not isinstance(given, dict):
            self.refuse(
                key, f"must be a GPU's id, a family, all, or a filter, not {given!r}; quote what looks like a number"
            )
            return None
        self.unknown_keys(given, _GPU_KEYS, f"{key}.")
        segments = self._members(f"{key}.segment", given.get("segment", []), Segment)
        where = self._texts(f"{key}.where", given.get("where", []))
        if len(segments) > 1:
            self.refuse(f"{key}.segment", "holds several; write one filter for each segment")
        return GpuEntry(
            names=self._texts(f"{key}.names", given.get("names", [])),
            where=(*where, *(f"segment = {segment.value}" for segment in segments)),
            vendors=self._texts(f"{key}.vendor", given.get("vendor", [])),
            architectures=self._texts(f"{key}.arch", given.get("arch", [])),
            min_memory=self.words(given, ("min_memory",), prefix=f"{key}.").get("min_memory"),
        )

    def workloads(self, given: object) -> tuple[AnyConditions, ...]:
        """Read workloads, each the product of its lists; batches of equal conditions are joined."""
        items = given if isinstance(given, list) else [given]
        if not items:
            self.refuse("workloads", "is empty; write a workload such as {batch: [1, 32], precision: [fp32]}")
        merged: dict[str, AnyConditions] = {}
        for index, item in enumerate(items):
            key = f"workloads[{index}]"
            if not isinstance(item, dict):
                self.refuse(key, f"must be keys with values, such as {{batch: [1, 32]}}, not {item!r}")
                continue
            serves = SERVING in _as_list(item.get("mode"))
            for conditions in self._serving(key, item) if serves else self._workload(key, item):
                label = workload_label(conditions)
                merged[label] = self._joined(key, merged[label], conditions) if label in merged else conditions
        return tuple(merged.values())

    def _workload(self, key: str, given: Tree) -> Iterator[Conditions]:
        self.unknown_keys(given, ("mode", *_WORKLOAD_FIELDS), f"{key}.")
        batches = self._batches(f"{key}.batch", given.get("batch", [1]))
        modes = self._members(f"{key}.mode", given.get("mode", [Mode.INFERENCE.value]), Mode)
        if Mode.TRAINING not in modes and any(name in given for name in _TRAINING_KEYS):
            self.refuse(key, f"{', '.join(_TRAINING_KEYS)} describe a training step; add mode: training")
        choices = {
            field.name: self._values(f"{key}.{name}", field, given.get(name, field.default))
            for name, field in _WORKLOAD_FIELDS.items()
            if name != "batch"
        }
        if not self._has_kernels(key, choices, trains=Mode.TRAINING in modes):
            return
        for mode in modes:
            trains = mode is Mode.TRAINING
            asked = {name: values for name, values in choices.items() if trains or name not in _TRAINING_KEYS}
            for values in itertools.product(*asked.values()):
                question = PlanQuestion(train=trains, **dict(zip(asked, values, strict=True)))
                try:
                    workload = question.workload()
                except UsageError as error:
                    self.refuse(key, str(error))
                    return
                metered = question.energy or question.power_limit_w is not None
                yield from_fields(Conditions, question, workload=workload, batches=batches, energy=metered)

    def _values(self, key: str, field: Field, given: object) -> list[Any]:
        """Read one value or a list of values of a field; "none" leaves an optional one unset."""
        values: list[Any] = []
        for value in _as_list(given):
            if field.default is None and value in (None, "none"):
                values.append(None)
            elif value is None:
                self.refuse(key, "is empty; leave it out for its default, or give a value")
            else:
                values.append(self.field(key, field, value, door=Door.SWEEP))
        return list(dict.fromkeys(value for value in values if value is not MISSING)) or [field.default]

    def _has_kernels(self, key: str, choices: Mapping[str, list[Any]], *, trains: bool) -> bool:
        """Refuse number formats of linear layers that PyTorch has no kernels for; True if there are none such."""
        pairs = list(itertools.product(choices["weights"], choices["activations"]))
        quantised = [pair for pair in pairs if pair != (None, None)]
        is_autocast = any(str(precision or "").startswith("amp-") for precision in choices["precision"])
        if quantised and (trains or is_autocast):
            self.refuse(
                f"{key}.weights", "quantised layers run in fp16, bf16 or fp32, neither under autocast nor in training; "
                "write a workload of its own",
            )  # fmt: skip
            return False
        for pair in quantised:
            try:
                find_scheme(*pair)
            except CapplanError as error:
                self.refuse(f"{key}.{'weights' if pair[0] is not None else 'activations'}", str(error))
                return False
        return True

    def _batches(self, key: str, given: object) -> Batches:
        listed: list[Batches] = []
        for words in _as_list(given):
            if isinstance(words, bool) or not isinstance(words, int | str):
                self.refuse(key, f'must be batches such as 8, [1, 32], "1..1024", auto or max, not {words!r}')
            elif (read := self.field(key, _WORKLOAD_FIELDS["batch"], str(words), door=Door.SWEEP)) is not MISSING:
                listed.append(read)
        if given == []:
            self.refuse(key, "is empty; write batches such as [1, 32]")
        if not listed:
            return Batches(choice=BatchChoice.AUTO)
        if len(listed) > 1 and any(batches.choice is not BatchChoice.LISTED for batches in listed):
            self.refuse(key, "auto and max stand alone; write a workload of its own for each")
        sizes = {size for batches in listed for size in batches.sizes}
        return Batches(choice=listed[0].choice, sizes=tuple(sorted(sizes)))

    def _joined(self, key: str, first: AnyConditions, second: AnyConditions) -> AnyConditions:
        both = first.joined(second)
        if both is None:
            self.refuse(key, "repeats the conditions of a workload above with other batches; keep auto or max apart")
        return both or first

    def _serving(self, key: str, given: Tree) -> Iterator[ServingConditions]:
        """Read how language models are served; lists multiply."""
        self.unknown_keys(given, ("mode", *_SERVING_FIELDS), f"{key}.")
        if _as_list(given["mode"]) != [SERVING]:
            self.refuse(f"{key}.mode", "serving stands alone; write a workload of its own for the other modes")
        listed = self._values(
            f"{key}.concurrency", _SERVING_FIELDS["concurrency"], given.get("concurrency", list(_CLIENTS))
        )
        clients = tuple(sorted({count for counts in listed for count in counts}))
        choices = {
            field.name: self._values(f"{key}.{name}", field, given.get(name, field.default))
            for name, field in _SERVING_FIELDS.items()
            if name != "concurrency"
        }
        for values in itertools.product(*choices.values()):
            stated = dict(zip(choices, values, strict=True))
            question = LlmEstimateQuestion(model="", gpu="", concurrency=clients, **stated)
            metered = question.energy or question.power_limit_w is not None
            yield from_fields(ServingConditions, question, engine=question.engine_for("").value, energy=metered)

    def _members(self, key: str, given: object, members: type[_Member]) -> list[_Member]:
        named = [self.member(key, word, members) for word in _as_list(given)]
        return list(dict.fromkeys(member for member in named if member is not None))

    def _texts(self, key: str, given: object) -> tuple[str, ...]:
        items = _as_list(given)
        if not all(isinstance(item, str) and item.strip() for item in items):
            self.refuse(key, f"must be text or a list of texts, not {given!r}")
            return ()
        return tuple(item.strip() for item in items if isinstance(item, str))


def _as_list(given: object) -> list[object]:
    return given if isinstance(given, list) else [given]
