"""What a launch file says is what `--config` reads of it: the same job, or the file names what it cannot say."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.llm.core.tensors import count_parameters
from capplan.llm.core.training.frameworks import FRAMEWORKS, States, TrainingFramework
from capplan.llm.core.training.job import AttentionImplementation, Compute, OptimizerRecipe, TrainingJob, default_shard
from capplan.llm.core.training.launch import launch_config
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.llm.read.config.parse import parse_config
from capplan.verbs.llm.train_files import with_config
from capplan.verbs.llm.train_job import LlmTrainMemoryQuestion
from tests.llm.core.training.test_launch_files import jobs
from tests.llm.core.training.training_cases import FORMS

LEFT = {
    "shard": "shared as|share nothing|trains on one GPU", "offloaded": "in the host's memory",
    "recompute": "recomputed",
    "optimizer": "the optimizer|adamw-8bit alone", "compute": "products in|linear layers", "base": "a base in",
    "method": "adapters|a base in", "compiled": "torch.compile", "fused_loss": "a loss by chunks", "vp": "chunks of",
    "optimizer_in_backward": "steps in the backward", "keep_gathered": "kept after", "zero_bubble": "bubbles",
    "adapter": "adapters", "states": "products in fp32|adapters",
}  # fmt: skip
"""How a file words what it cannot say of each part of a job."""
LAUNCHED = [framework for framework in FRAMEWORKS if framework.launch]


def stated(framework: TrainingFramework) -> Iterator[TrainingJob]:
    """Yield jobs as questions about a framework state them: with the kernels and formats that are its own."""
    tuned = AttentionImplementation.TUNED if framework.tunes_attention else AttentionImplementation.FLASH
    for job in jobs(framework):
        found = find_in_catalogue(job.architecture.name)
        assert found is not None
        yield replace(
            job,
            framework=replace(framework, forms=FORMS),
            architecture=replace(job.architecture, publisher_id=found.hf_id),
            attention=tuned,
            # unsloth's command takes no other optimizer
            optimizer=OptimizerRecipe.ADAMW_8BIT if framework.name == "unsloth" else job.optimizer,
            fused_loss=job.fused_loss or framework.fuses_loss,
            compiled=framework.compiles or job.layout.gpus == 8,
            # torchtune's dtype is that of weights and states, too
            states=States.PURE if job.is_adapted else States.AUTOCAST if is_fp32(job) else framework.states,
        )


def is_fp32(job: TrainingJob) -> bool:
    """Return True if a job of torchtune computes in fp32."""
    return job.framework.name == "torchtune" and job.compute in (Compute.FP32, Compute.TF32)


def read_again(job: TrainingJob, folder: Path) -> tuple[str, LlmTrainMemoryQuestion, int]:
    """Return a launch file's text, the question that it asks, and the parameters of the model that it describes."""
    config = launch_config(job)
    assert config is not None
    file = folder / ("train.sh" if "\\\n" in config.text else "train.yaml")
    file.write_text(config.text)
    files = [file]
    if " --per_device" in config.start:
        (folder / "start.sh").write_text(config.start)
        files.insert(0, folder / "start.sh")
    placed = re.search(r"CONFIG|RECIPE|=MODEL|multi-latent", config.text) is not None
    asked = LlmTrainMemoryQuestion(
        model=job.architecture.name if placed else "", gpu="h100-sxm5-80gb", gpu_count=job.layout.gpus,
        framework=job.framework.name, config=tuple(files),
    )  # fmt: skip
    question, read = with_config(asked)
    # MaxText's layers of a stage say how it is interleaved, for which its files lack the model's layers
    odd = [odd for each in read for odd in (*each.unmodelled, *each.unknown) if "num_layers_per_pipeline" not in odd]
    assert odd == [], config.text
    described = sum(count_parameters(parse_config(each.config, name="x")) for each in read if each.config)
    return config.text, question, described


def differences(job: TrainingJob, question: LlmTrainMemoryQuestion) -> set[str]:
    """Return the parts of a job that a question states otherwise."""
    model = find_in_catalogue(job.architecture.name)
    assert model is not None
    layout, method = job.layout, question.method_job(model)
    names = ["method", "compute", "states", "optimizer", "sequence_tokens", "attention", "fused_loss", "compiled",
             "offloaded", "optimizer_in_backward"]  # fmt: skip
    found = {name for name in names if getattr(method, name) != getattr(job, name)}
    if job.is_adapted and method.is_adapted:
        found |= {name for name in ("adapter", "base") if getattr(method, name) != getattr(job, name)}
    shard = question.shard or default_shard(job.framework, ranks=layout.data * layout.context)
    pairs = {
        "tp": (layout.tensor, question.tp), "pp": (layout.pipeline, question.pp), "vp": (layout.virtual, question.vp),
        "cp": (layout.context, question.cp), "ep": (layout.expert, question.ep),
        "gpus": (layout.gpus, question.gpu_count), "zero_bubble": (layout.zero_bubble, question.zero_bubble),
        "keep_gathered": (layout.keep_gathered, question.keep_gathered),
        "micro_batch": (job.micro_batch, question.micro_batch), "accumulation": (job.accumulation, question.accumulate),
        "recompute": (job.recompute, question.recompute),
        "shard": (layout.shard, shard if layout.data > 1 else layout.shard),
    }  # fmt: skip
    return found | {name for name, (written, read) in pairs.items() if written != read}


@pytest.mark.parametrize("framework", LAUNCHED, ids=lambda framework: framework.name)
def test_a_launch_file_asks_the_question_that_it_answers_or_names_what_it_cannot_say(
    framework: TrainingFramework, tmp_path: Path
) -> None:
    told = plain = 0
    for job in stated(framework):
        text, question, described = read_again(job, tmp_path)
        model = find_in_catalogue(job.architecture.name)
        assert model is not None
        if described and "its norms behind" not in text:
            assert described == count_parameters(job.architecture), text
        elif not described and question.model != job.architecture.name:
            named = find_in_catalogue(question.model)
            assert named is not None
            assert named.hf_id == model.hf_id
        comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
        unsaid = {name for name in differences(job, question) if not re.search(LEFT.get(name, "$^"), comments)}
        assert unsaid == set(), text
        told += not differences(job, question)
        plain += 1
    assert plain >= 60
    assert told >= 3
