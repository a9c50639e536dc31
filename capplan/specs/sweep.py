"""Read SWEEP.yaml: which models, on which GPUs, under which workloads."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from capplan.core.batches import BatchChoice, Batches, parse_batches
from capplan.core.gpus.spec import Segment
from capplan.core.quantisation.schemes import find_scheme
from capplan.core.serving_engines import find_engine
from capplan.core.sweep.conditions import SERVING, AnyConditions, Conditions, ServingConditions
from capplan.core.sweep.definition import Definition, GpuEntry, ModelEntry, workload_label
from capplan.core.workload import DEFAULT_UTILIZATION, Framework, Layout, Mode, Optimizer, Precision, Training, Workload
from capplan.errors import CapplanError, UsageError
from capplan.specs.yaml.checker import Checker
from capplan.specs.yaml.strict import Tree, read_yaml

_KEYS = ("models", "gpus", "workloads")
_MODEL_KEYS = ("model", "arg", "input", "input_size", "seq_len", "inputs_from", "prepare")
_GPU_KEYS = ("names", "where", "segment", "vendor", "arch", "min_memory")
_WORKLOAD_KEYS = (
    "batch", "precision", "framework", "layout", "mode", "optimizer", "checkpointing", "accumulate", "torch",
    "utilization", "weights", "activations",
)  # fmt: skip
_SERVING_KEYS = ("mode", "concurrency", "input_len", "output_len", "engine", "tp", "weights", "kv")
_TRAINING_KEYS = ("optimizer", "checkpointing", "accumulate")
_Member = TypeVar("_Member", bound=StrEnum)


def read_sweep_file(path: Path) -> Definition:
    """Read a sweep's file.

    Args:
        path: the file.

    Raises:
        SpecError: the file is refused, with all that is wrong with it, each by its key.
    """
    return read_sweep_tree(read_yaml(path), shown=str(path))


def read_sweep_tree(tree: Tree, *, shown: str) -> Definition:
    """Read a sweep from values as YAML holds them.

    Args:
        tree: the values under the keys `models`, `gpus` and `workloads`.
        shown: what errors name the values by.

    Raises:
        SpecError: something is refused.
    """
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


class _SweepReader(Checker):
    """Reads the three parts of the file and gathers what is wrong with them."""

    def models(self, given: object) -> tuple[ModelEntry, ...]:
        """Read names, globs, files and folders, each a text or a mapping with a model's options."""
        items = given if isinstance(given, list) else [given]
        if not items:
            self.refuse("models", _MISSING["models"].replace("is missing", "is empty"))
        entries = [self._model(f"models[{index}]", item) for index, item in enumerate(items)]
        return tuple(entry for entry in entries if entry is not None)

    def _model(self, key: str, given: object) -> ModelEntry | None:
        if isinstance(given, str) and given.strip():
            return ModelEntry(words=given.strip())
        if not isinstance(given, dict):
            self.refuse(key, f"must be a model's name, a glob, a file or a folder, not {given!r}")
            return None
        self.unknown_keys(given, _MODEL_KEYS, f"{key}.")
        words = self.words(given, ("model", "input_size", "inputs_from"), prefix=f"{key}.")
        if "model" not in words:
            self.refuse(f"{key}.model", "is missing; name the model, such as torchvision:resnet18")
            return None
        seq_len = given.get("seq_len")
        if seq_len is not None and (type(seq_len) is not int or seq_len < 1):
            self.refuse(f"{key}.seq_len", f"must be a whole number of tokens above 0, not {seq_len!r}")
            return None
        return ModelEntry(
            words=words["model"],
            arg=self._texts(f"{key}.arg", given.get("arg", [])),
            inputs=self._texts(f"{key}.input", given.get("input", [])),
            input_size=words.get("input_size"),
            seq_len=seq_len,
            inputs_from=words.get("inputs_from"),
            prepare=self._texts(f"{key}.prepare", given.get("prepare", [])),
        )

    def gpus(self, given: object) -> tuple[GpuEntry, ...]:
        """Read ids and families, or filters over all GPUs; a list may hold both."""
        items = given if isinstance(given, list) else [given]
        if not items and given is not None:
            self.refuse("gpus", _MISSING["gpus"].replace("is missing", "is empty"))
        one = not isinstance(given, list)
        found = [self._gpu("gpus" if one else f"gpus[{index}]", item) for index, item in enumerate(items)]
        return tuple(entry for entry in found if entry is not None)

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
            for each in self._serving(key, item) if serves else self._workload(key, item):
                label = workload_label(each)
                merged[label] = self._joined(key, merged[label], each) if label in merged else each
        return tuple(merged.values())

    def _workload(self, key: str, given: Tree) -> Iterator[Conditions]:
        self.unknown_keys(given, _WORKLOAD_KEYS, f"{key}.")
        batches = self._batches(f"{key}.batch", given.get("batch", [1]))
        choices: list[Sequence[StrEnum]] = [
            self._members(f"{key}.{name}", given.get(name, [default]), kind)
            for name, kind, default in _CHOICES
        ]  # fmt: skip
        torch_version = self._torch(f"{key}.torch", given.get("torch", "2.11"))
        utilization = self._fraction(f"{key}.utilization", given.get("utilization", DEFAULT_UTILIZATION))
        trainings = self._trainings(key, given)
        modes = choices.pop()
        if trainings and Mode.TRAINING not in modes:
            self.refuse(key, f"{', '.join(_TRAINING_KEYS)} describe a training step; add mode: training")
        formats = self._formats(key, given, trains=Mode.TRAINING in modes)
        for precision, framework, layout, mode in itertools.product(*choices, modes):
            steps: Sequence[Training | None] = (trainings or [Training()]) if mode is Mode.TRAINING else [None]
            for training, (weights, activations) in itertools.product(steps, formats):
                yield Conditions(
                    workload=Workload(
                        precision=Precision(precision), framework=Framework(framework), layout=Layout(layout),
                        training=training, torch_version=torch_version,
                    ),
                    batches=batches,
                    utilization_fraction=utilization,
                    weights=weights,
                    activations=activations,
                )  # fmt: skip

    def _formats(self, key: str, given: Tree, *, trains: bool) -> list[tuple[str | None, str | None]]:
        """Return the number formats that linear layers are quantised to, as products of both lists."""
        names = ("weights", "activations")
        weights, activations = (self._formats_of(f"{key}.{name}", given.get(name)) for name in names)
        found = list(itertools.product(weights, activations))
        quantised = [each for each in found if each != (None, None)]
        if quantised and (trains or any(str(each).startswith("amp-") for each in _as_list(given.get("precision")))):
            self.refuse(
                f"{key}.weights", "quantised layers run in fp16, bf16 or fp32, neither under autocast nor in training; "
                "write a workload of its own",
            )  # fmt: skip
            return [(None, None)]
        for pair in quantised:
            try:
                find_scheme(*pair)
            except CapplanError as error:
                self.refuse(f"{key}.{names[pair[0] is None]}", str(error))
                return [(None, None)]
        return found

    def _formats_of(self, key: str, given: object) -> list[str | None]:
        return [None if each in (None, "none") else "".join(self._texts(key, each)) for each in _as_list(given)]

    def _trainings(self, key: str, given: Tree) -> list[Training]:
        """Return the training steps that the keys of training describe; none where no such key stands."""
        if not any(name in given for name in _TRAINING_KEYS):
            return []
        optimizers = self._members(f"{key}.optimizer", given.get("optimizer", [Optimizer.ADAMW.value]), Optimizer)
        checkpointing = _as_list(given.get("checkpointing", False))
        accumulate = _as_list(given.get("accumulate", 1))
        if not all(isinstance(each, bool) for each in checkpointing):
            self.refuse(f"{key}.checkpointing", f"must be true or false, not {given['checkpointing']!r}")
        if not all(type(each) is int and 1 <= each <= _MOST_MICRO_BATCHES for each in accumulate):
            most = f"whole numbers from 1 to {_MOST_MICRO_BATCHES}"
            self.refuse(f"{key}.accumulate", f"must be {most}, not {given['accumulate']!r}")
        return [
            Training(optimizer=optimizer, checkpointing=bool(recomputes), accumulate=int(micro_batches))
            for optimizer, recomputes, micro_batches in itertools.product(optimizers, checkpointing, accumulate)
            if type(micro_batches) is int
        ]

    def _batches(self, key: str, given: object) -> Batches:
        found: list[Batches] = []
        for each in _as_list(given):
            if isinstance(each, bool) or not isinstance(each, int | str):
                self.refuse(key, f'must be batches such as 8, [1, 32], "1..1024", auto or max, not {each!r}')
                continue
            try:
                found.append(parse_batches(str(each)))
            except UsageError as error:
                self.refuse(key, str(error).removeprefix("--batch "))
        if not found:
            self.refuse(key, "is empty; write batches such as [1, 32]")
            return Batches(choice=BatchChoice.AUTO)
        if len(found) > 1 and any(each.choice is not BatchChoice.LISTED for each in found):
            self.refuse(key, "auto and max stand alone; write a workload of its own for each")
        sizes = dict.fromkeys(size for each in found for size in each.sizes)
        return Batches(choice=found[0].choice, sizes=tuple(sorted(sizes)))

    def _joined(self, key: str, first: AnyConditions, second: AnyConditions) -> AnyConditions:
        both = first.joined(second)
        if both is None:
            self.refuse(key, "repeats the conditions of a workload above with other batches; keep auto or max apart")
        return both or first

    def _serving(self, key: str, given: Tree) -> Iterator[ServingConditions]:
        """Read how language models are served; lists multiply."""
        self.unknown_keys(given, _SERVING_KEYS, f"{key}.")
        if _as_list(given["mode"]) != [SERVING]:
            self.refuse(f"{key}.mode", "serving stands alone; write a workload of its own for the other modes")
        clients = self._batches(f"{key}.concurrency", given.get("concurrency", [1, 8, 32]))
        if clients.choice is not BatchChoice.LISTED:
            self.refuse(f"{key}.concurrency", 'must be numbers of clients, such as [1, 32] or "1..64"')
        counts = {
            name: self._counts(f"{key}.{name}", given.get(name, default))
            for name, default in (("input_len", 1024), ("output_len", 256), ("tp", 1))
        }
        self._check_engines(f"{key}.engine", given.get("engine", "vllm"))
        words = {name: self._texts(f"{key}.{name}", given.get(name, "-")) for name in ("weights", "kv")}
        for engine, tensor, input_len, output_len, weights, kv in itertools.product(
            self._texts(f"{key}.engine", given.get("engine", "vllm")), counts["tp"], counts["input_len"],
            counts["output_len"], words["weights"], words["kv"],
        ):  # fmt: skip
            yield ServingConditions(
                concurrencies=clients.sizes,
                input_len=input_len,
                output_len=output_len,
                engine=engine,
                tensor=tensor,
                weights="" if weights == "-" else weights,
                kv="" if kv == "-" else kv,
            )

    def _check_engines(self, key: str, given: object) -> None:
        for engine in self._texts(key, given):
            try:
                find_engine(engine)
            except CapplanError as error:
                self.refuse(key, str(error))

    def _counts(self, key: str, given: object) -> list[int]:
        found = [each for each in _as_list(given) if type(each) is int and 1 <= each <= _MOST_TOKENS]
        if len(found) != len(_as_list(given)) or not found:
            self.refuse(key, f"must be whole numbers from 1 to {_MOST_TOKENS}, not {given!r}")
        return found

    def _members(self, key: str, given: object, members: type[_Member]) -> list[_Member]:
        found = [self.member(key, each, members) for each in _as_list(given)]
        return list(dict.fromkeys(each for each in found if each is not None))

    def _texts(self, key: str, given: object) -> tuple[str, ...]:
        items = _as_list(given)
        if not all(isinstance(item, str) and item.strip() for item in items):
            self.refuse(key, f"must be text or a list of texts, not {given!r}")
            return ()
        return tuple(item.strip() for item in items if isinstance(item, str))

    def _torch(self, key: str, given: object) -> tuple[int, int]:
        parts = str(given).split("+", maxsplit=1)[0].split(".")
        if len(parts) < 2 or not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts[:2]):
            self.refuse(key, f'{given!r} is not a PyTorch version; write MAJOR.MINOR in quotes, such as "2.11"')
            return (2, 11)
        return int(parts[0]), int(parts[1])

    def _fraction(self, key: str, given: object) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0.01 <= given <= 1:
            self.refuse(key, f"must be a share of usable memory from 0.01 to 1, not {given!r}")
            return DEFAULT_UTILIZATION
        return float(given)


_MOST_MICRO_BATCHES = 2**20
_MOST_TOKENS = 2**24
_CHOICES: Sequence[tuple[str, type[StrEnum], str]] = (
    ("precision", Precision, Precision.FP32.value),
    ("framework", Framework, Framework.EAGER.value),
    ("layout", Layout, Layout.NCHW.value),
    ("mode", Mode, Mode.INFERENCE.value),
)


def _as_list(given: object) -> list[object]:
    return given if isinstance(given, list) else [given]


def definition_to_json(definition: Definition) -> Mapping[str, object]:
    """Return a sweep's definition as plain values, as the manifest keeps it.

    Args:
        definition: the sweep.
    """
    return {
        "models": [_without_empty(entry) for entry in definition.models],
        "gpus": [_without_empty(entry) for entry in definition.gpus],
        "workloads": [
            {"workload": workload_label(each), "batch": list(each.sizes), **each.asked()}
            for each in definition.workloads
        ],
    }


def _without_empty(entry: ModelEntry | GpuEntry) -> dict[str, object]:
    values = {name: getattr(entry, name) for name in type(entry).__dataclass_fields__}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value}
