"""Launch files hold nothing but what their frameworks take: keys by release, and their own parsers where installed."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from capplan.llm.core.training.frameworks import FRAMEWORKS, TrainingFramework, find_framework
from capplan.llm.core.training.job import (
    BaseFormat,
    Compute,
    Method,
    Offloaded,
    OptimizerRecipe,
    Recompute,
    Shard,
    TrainingJob,
    TrainingLayout,
    shares_layers,
)
from capplan.llm.read.catalogue import find_in_catalogue
from tests.llm.core.training.training_cases import launched

TABLES: Mapping[str, Mapping[str, Any]] = yaml.safe_load((Path(__file__).parent / "launch_keys.yaml").read_text())
WRITERS = sorted({framework.launch for framework in FRAMEWORKS if framework.launch})
OF_LAUNCHERS = {"nnodes", "nproc-per-node", "rdzv-id", "rdzv-backend", "rdzv-endpoint"}
"""torchrun's arguments (PyTorch's documentation, "torchrun (Elastic Launch)"; looked up 2026-11-27)."""
MODELS = ("llama-3.1-8b-instruct", "qwen3-30b-a3b", "deepseek-v3", "gemma-2-9b-it")
OFFLOADS = (frozenset[Offloaded](), frozenset(Offloaded))


def layouts(framework: TrainingFramework) -> Iterator[TrainingLayout]:
    """Yield one GPU, a server, and where layers are shared every kind of sharing over two servers."""
    yield TrainingLayout()
    for shard in (Shard.NONE, Shard.ZERO1, Shard.ZERO2, Shard.ZERO3):
        yield TrainingLayout(gpus=8, shard=shard)
    yield TrainingLayout(gpus=16, shard=Shard.ZERO3, keep_gathered=True)
    if shares_layers(framework):
        shared = TrainingLayout(
            gpus=16, tensor=2, pipeline=2, virtual=2, context=2, expert=2, sequence_parallel=True, shard=Shard.ZERO1
        )
        yield shared
        yield replace(shared, zero_bubble=True, shard=Shard.ZERO3, expert=1)


def jobs(framework: TrainingFramework) -> Iterator[TrainingJob]:
    """Yield jobs that together make a framework's writer take each of its ways."""
    found = find_in_catalogue(MODELS[0])
    assert found is not None
    plain = TrainingJob(
        architecture=found.architecture, framework=framework, states=framework.states, accumulation=4, compiled=True
    )
    for layout, recompute, offloaded in product(layouts(framework), Recompute, OFFLOADS):
        yield replace(plain, layout=layout, recompute=recompute, offloaded=offloaded)
    for optimizer in OptimizerRecipe:
        yield replace(plain, optimizer=optimizer, accumulation=1, optimizer_in_backward=True, fused_loss=True)
    for compute in Compute:
        yield replace(plain, compute=compute, layout=TrainingLayout(gpus=8, shard=Shard.ZERO3))
    for base in BaseFormat:
        method = Method.LORA if base in (BaseFormat.BF16, BaseFormat.INT8, BaseFormat.FP8) else Method.QLORA
        yield replace(plain, method=method, base=base, recompute=Recompute.FULL)
    for name in MODELS[1:]:
        other = find_in_catalogue(name)
        assert other is not None
        yield replace(plain, architecture=other.architecture, layout=TrainingLayout(gpus=8, expert=1))


def texts(writer: str) -> list[str]:
    """Return the launch files of all frameworks that one writer serves."""
    served = [framework for framework in FRAMEWORKS if framework.launch == writer]
    found = {launched(job) or "" for framework in served for job in jobs(framework)}
    assert len(found) >= 6
    return sorted(found)


def nested(tree: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield the paths of keys, with dots."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from nested(value, f"{before}{key}.")
        else:
            yield f"{before}{key}"


def arguments(text: str) -> list[str]:
    """Return the words of a command without its comments."""
    return shlex.split("\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " "))


def keys(text: str) -> set[str]:
    """Return the keys that a launch file sets: of YAML, of a command, and the arguments that comments spell out."""
    spoken = {word for line in re.findall(r"^#   (--.*)$", text, re.MULTILINE) for word in re.findall(r"--(\S+)", line)}
    tree = yaml.safe_load(text) if "\\\n" not in text else None
    if isinstance(tree, dict):
        return spoken | set(nested(tree))
    words = arguments(text)
    options = {word.removeprefix("--").partition("=")[0] for word in words if word.startswith("--")}
    settings = {word.partition("=")[0] for word in words if "=" in word and not word.startswith(("-", "["))}
    return spoken | ((options | settings) - OF_LAUNCHERS)


@pytest.mark.parametrize("writer", WRITERS)
def test_files_hold_keys_of_the_release_alone(writer: str) -> None:
    table = TABLES[writer]
    assert table["release"]
    assert table["source"]
    written = set().union(*map(keys, texts(writer)))
    assert len(written) >= 8
    assert written - set(table["keys"]) == set()


def test_every_framework_of_today_has_a_file() -> None:
    # what users of public questions name; the rest are frameworks of past runs
    for name in (
        "torchtitan",
        "megatron",
        "nemo",
        "torchtune",
        "trl",
        "axolotl",
        "llama-factory",
        "unsloth",
        "maxtext",
    ):
        assert find_framework(name).launch in WRITERS, name


def test_unsloth_reads_its_file(tmp_path: Path) -> None:
    config = pytest.importorskip("unsloth_cli.config", reason="needs a framework of training: unsloth")
    for number, text in enumerate(texts("unsloth")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        found = config.load_config(file)
        assert found.training.gradient_accumulation_steps in (1, 4)


def test_accelerate_reads_its_file(tmp_path: Path) -> None:
    config = pytest.importorskip(
        "accelerate.commands.config.config_args", reason="needs a framework of training: accelerate"
    )
    for number, text in enumerate(texts("accelerate")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        assert config.load_config_from_file(str(file)).num_processes in (1, 8, 16)


def test_flags_of_trl_have_values_and_optimizers_are_those_of_its_trainer() -> None:
    # SFTConfig of TRL 1.16 with transformers 5.23: an optional flag without a value ends in "expected one argument",
    # and an optimizer that is not of OptimizerNames in "invalid choice"
    for text in texts("accelerate"):
        said = " ".join(re.findall(r"^#   (--.*)$", text, re.MULTILINE))
        for flag in ("--bf16", "--fp16", "--tf32", "--use_liger_kernel", "--torch_compile"):
            assert re.search(rf"{flag}(?! (True|False)\b)", said) is None, said
        assert re.search(r"--optim (adamw-bf16|muon)", said) is None
        assert ("--optim " in said) is ("the optimizer" not in text)


def trl_parser() -> Any:
    """Return the parser of `trl sft`, its own arguments and what it hands to accelerate."""
    return pytest.importorskip("trl.scripts.sft", reason="needs a framework of training: trl").make_parser()


def test_trl_reads_its_file(tmp_path: Path) -> None:
    launch = pytest.importorskip("accelerate.commands.launch", reason="needs a framework of training: accelerate")
    for number, text in enumerate(texts("trl")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text.replace("tf32: true", "tf32: false"))  # which it refuses without a GPU
        *_, left, beside = trl_parser().parse_args_and_config(
            # so are its 16-bit formats unless it is told to run on a CPU
            ["--config", str(file), "--use_cpu", "True"],
            return_remaining_strings=True,
            separate_remaining_strings=True,
        )
        assert beside == []
        at = left.index("--accelerate_config")
        assert left[at + 1] in {"single_gpu", "multi_gpu", "zero1", "zero2", "zero3", "fsdp2"}
        parsed = launch.launch_command_parser().parse_args([*left[:at], *left[at + 2 :], "sft.py"])
        assert parsed.num_processes in (1, 8, 16)


def test_llama_factory_reads_its_file() -> None:
    parser = pytest.importorskip("llamafactory.hparams.parser", reason="needs a framework of training: llama-factory")
    for text in texts("llama-factory"):
        model, *_ = parser._parse_train_args(yaml.safe_load(text))
        assert model.model_name_or_path


def test_axolotl_reads_its_file() -> None:
    schemas = pytest.importorskip("axolotl.utils.schemas.config", reason="needs a framework of training: axolotl")
    for text in texts("axolotl"):
        tree = yaml.safe_load(text) | {"datasets": [{"path": "data", "type": "alpaca"}], "learning_rate": 1e-5}
        assert schemas.AxolotlInputConfig(**tree).micro_batch_size == 1


def test_torchtitan_has_the_fields_of_its_arguments() -> None:
    configs = pytest.importorskip("torchtitan.config.configs", reason="needs a framework of training: torchtitan")
    named = {key.split(".")[-1] for text in texts("torchtitan") for key in keys(text) if "." in key}
    sections = (configs.TrainingConfig, configs.ParallelismConfig, configs.CompileConfig)
    assert named - {field.name for section in sections for field in fields(section)} == set()
