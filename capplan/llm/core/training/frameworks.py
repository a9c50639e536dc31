"""What frameworks of training do that memory and time depend on: formats of their states, fused kernels, overlap."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from capplan.core.launch_files import Renaming
from capplan.errors import UnknownNameError, UsageError
from capplan.llm.core.training.objective import Objective


class States(StrEnum):
    """The number formats in which parameters, gradients and optimizer states are kept.

    `MASTER`: 16-bit weights beside an fp32 copy that the optimizer updates. `AUTOCAST`: fp32 weights, of which 16-bit
    copies are made for matrix products. `PURE`: weights, gradients and moments all in 16 bits.
    """

    MASTER = "master"
    AUTOCAST = "autocast"
    PURE = "pure"


class Family(StrEnum):
    """Frameworks that share their kernels, and hence their fitted constants."""

    MEGATRON = "megatron"
    FSDP = "fsdp"
    EAGER = "eager"
    TRAINER = "trainer"
    UNSLOTH = "unsloth"
    XLA = "xla"


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierReleases:
    """What releases of a framework before a version did otherwise, or those before a month (YYYY-MM)."""

    before: str
    before_month: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkForm:
    """A framework's configuration, whose lines have places for words; one of `?word` stands where that is not empty.

    `head` is all of a file in YAML, or comments before `command`, whose lines are joined. `start` is the command that
    reads the file, and `arguments` are what it takes besides. `recipe` is the kind of a shipped recipe that it takes,
    and `place` stands where none is shipped. `left` are words of a job, by name, that it cannot say.
    """

    head: str
    recipe: str = ""
    place: str = ""
    left: tuple[str, ...] = ()
    command: str = ""
    start: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedModel:
    """What a framework ships of a model: the name there, and the kinds of recipes; none where there is one alone."""

    name: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkForms:
    """The configurations of all frameworks, and their words; `matrices` are names of those that adapters change.

    `shipped` holds by form and by model what a framework ships, `left` what a form says of a word that it cannot say.
    """

    matrices: Mapping[str, Mapping[str, str]]
    shipped: Mapping[str, Mapping[str, ShippedModel]]
    words: Mapping[str, Renaming]
    left: Mapping[str, str]
    forms: Mapping[str, FrameworkForm]

    def recipe_of(self, form: str, model: str, kind: str) -> str:
        """Return the name of the recipe that is shipped of a model; empty where none is."""
        found = self.shipped.get(form, {}).get(model)
        if found is None or (found.kinds and kind not in found.kinds):
            return ""
        return f"{found.name}_{kind}" if found.kinds else found.name

    def recipe_named(self, form: str, name: str) -> tuple[str, str] | None:
        """Return the model of a shipped recipe and the recipe's kind, the inverse of `recipe_of`."""
        for model, found in self.shipped.get(form, {}).items():
            short = found.name.rpartition(" ")[2]
            for kind in found.kinds or ("",):
                if name == f"{short}_{kind}".rstrip("_"):
                    return model, kind
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFramework:
    """A framework of training with what it decides.

    Attributes:
        name: How people call it.
        family: The frameworks that share its fitted constants.
        states: Formats of its states unless the user states others.
        gradient_bytes: Bytes of a gradient's element where weights have an fp32 master copy. NeMo's and
            Megatron-Bridge's recipes reduce in 16 bits (`grad_reduce_in_fp32=False`). DeepSpeed's optimizer of bf16
            sums in fp32 beside the 16-bit gradients, unshared under ZeRO-1.
        fuses_norm: Norms keep their input alone; otherwise an fp32 copy of it, too.
        fuses_activation: The gated activation keeps its two inputs; otherwise its first half's output, too.
        fuses_loss: The loss is computed by chunks, so that the logits are never whole.
        keeps_no_logits: The loss computes logits by tiles that never leave the chip.
        tiles_loss: Objectives whose loss computes logits by tiles of some tokens and some of the vocabulary.
        loss_in_place: The loss overwrites 16-bit logits with their gradient, so that no fp32 copies of all of them
            stand beside: it works in place, is compiled, or takes them to fp32 by chunks.
        repeats_keys: Keys and values are repeated to as many heads as queries have before attention runs.
        tunes_attention: Attention runs in the vendor's kernel (cuDNN, Transformer Engine, AITER) instead of
            FlashAttention-2.
        adapter_bytes: Bytes of an element of LoRA's matrices and of the inputs that they keep.
        gathers_base: Sharded data parallelism gathers a whole frozen base at once instead of layer by layer.
        keeps_gradients: Gradients are allocated for the whole job instead of during the backward pass.
        copies_gradients: The optimizer keeps an fp32 copy of the 16-bit gradients beside its states, and shares it as
            them: 20 bytes a parameter without sharding, 4 + 16/d with ZeRO-1 and 18/d with ZeRO-3, as DeepSpeed's
            estimators count.
        accumulates_whole: Gradients of sharded parameters are summed over micro-batches before they are shared
            (`no_sync`), so that they lie whole on every GPU.
        widens_quantised: A quantised base runs in fp32 outside of its matrix products: its norms are converted
            (`prepare_model_for_kbit_training`), with them the residual stream, and bitsandbytes returns its input's
            format.
        compiles: Operators are fused by a compiler by default.
        recomputes: Layers run again in the backward pass unless their user says otherwise, as by MaxText's default
            `remat_policy: full`.
        recomputes_operators: Cheap operators do, as by torchtitan's default `mode = "selective"`.
        checkpoints_aside: Checkpoints are written beside the job by default (MaxText's `async_checkpointing`, NeMo's
            `ckpt_async_save`; read 2026-11-27).
        overlaps_tensor: Traffic of tensor parallelism runs beside products: the backward pass's beside the weights'
            gradients, or all of it by tiles (Transformer Engine's user buffers). Otherwise products wait for it.
        narrows_inputs: Linear layers in fp8 and narrower keep their inputs in that format for the weights' gradients,
            as Transformer Engine's do; otherwise in 16 bits.
        always_shards: Its recipes for several GPUs share everything among them by FSDP, in plain training and adapters.
        stage_buffers: Tensors of a pipeline stage's boundary that are kept of each micro-batch in flight, beside what
            autograd keeps: DeepSpeed's engine holds every stage's input and output.
        launch: What writes its launch configuration; empty where nothing does.
        release: The release that these facts were read of.
        earlier: What earlier releases did otherwise, the oldest first.
        forms: Those of launch configurations, once they are read; None where nobody asks for one.
    """

    name: str
    family: Family
    states: States
    gradient_bytes: float = 4.0
    fuses_norm: bool = False
    fuses_activation: bool = False
    fuses_loss: bool = False
    keeps_no_logits: bool = False
    tiles_loss: tuple[Objective, ...] = ()
    loss_in_place: bool = False
    repeats_keys: bool = False
    tunes_attention: bool = False
    adapter_bytes: float = 2.0
    gathers_base: bool = False
    keeps_gradients: bool = False
    copies_gradients: bool = False
    accumulates_whole: bool = False
    widens_quantised: bool = False
    compiles: bool = False
    recomputes: bool = False
    recomputes_operators: bool = False
    checkpoints_aside: bool = False
    overlaps_tensor: bool = False
    narrows_inputs: bool = False
    always_shards: bool = False
    stage_buffers: int = 0
    launch: str = ""
    release: str = ""
    earlier: tuple[EarlierReleases, ...] = ()
    forms: FrameworkForms | None = field(default=None, compare=False, repr=False)


_megatron = partial(
    TrainingFramework, family=Family.MEGATRON, states=States.MASTER, fuses_norm=True, fuses_activation=True,
    keeps_gradients=True,
)  # fmt: skip
_core = partial(_megatron, tunes_attention=True, narrows_inputs=True, overlaps_tensor=True)
_fsdp = partial(TrainingFramework, family=Family.FSDP, states=States.AUTOCAST, fuses_norm=True)
_trainer = partial(TrainingFramework, family=Family.TRAINER, repeats_keys=True, adapter_bytes=4.0)


FRAMEWORKS = (
    _core(name="megatron", release="Megatron-Core 0.12", launch="megatron"),
    _core(name="nemo", release="NeMo 24.07 to 25.04", gradient_bytes=2.0, checkpoints_aside=True, launch="bridge"),
    _core(name="megatron-bridge", release="Megatron-Bridge 0.2", gradient_bytes=2.0, launch="bridge"),
    _core(name="primus", release="Primus 25.9 on ROCm 7", overlaps_tensor=False),
    _megatron(name="megatron-deepspeed", gradient_bytes=6.0, stage_buffers=2, release="Megatron-DeepSpeed 2022"),
    _megatron(name="internevo", gradient_bytes=2.0, release="InternEvo 0.5"),
    _megatron(name="colossalai", gradient_bytes=2.0, release="ColossalAI 0.4"),
    _fsdp(name="fsdp1", release="PyTorch 2.1 FSDP1"),
    _fsdp(name="composer", loss_in_place=True, release="llm-foundry 2023 to 2025"),
    _fsdp(name="fsdp2", launch="torchtitan", release="PyTorch 2.6 FSDP2"),
    _fsdp(
        name="torchtitan", fuses_activation=True, compiles=True, loss_in_place=True, recomputes_operators=True,
        launch="torchtitan", release="torchtitan 0.2",
        # The loss is compiled with the model since pull request 1033 of 2025-04; read 2026-11-27.
        earlier=(EarlierReleases(before="0.1", before_month="2025-04", facts={"loss_in_place": False}),),
    ),
    TrainingFramework(
        name="torchtune", family=Family.EAGER, states=States.PURE, always_shards=True, loss_in_place=True,
        recomputes=True, launch="torchtune", release="torchtune 0.6",
        # The loss goes to fp32 by chunks since pull request 1390 of 2024-08; read 2026-11-27.
        earlier=(EarlierReleases(before="0.3", before_month="2024-09", facts={"loss_in_place": False}),),
    ),
    TrainingFramework(
        name="litgpt", family=Family.EAGER, states=States.PURE, gathers_base=True, accumulates_whole=True,
        release="litgpt 2023 to 2024",
    ),
    TrainingFramework(name="torchao", family=Family.EAGER, states=States.PURE, fuses_norm=True, release="torchao 0.9"),
    _trainer(
        name="hf-trainer", states=States.AUTOCAST,
        accumulates_whole=True, launch="accelerate", release="transformers 4.40 to 5.13",
    ),
    _trainer(
        name="trl", states=States.AUTOCAST,
        accumulates_whole=True, widens_quantised=True, recomputes=True, launch="trl", release="TRL 1.16",
        tiles_loss=(Objective.SFT, Objective.DPO, Objective.GRPO),
        # `gradient_checkpointing` is on by default since pull request 3510 of 2025-06. SFT's loss is `chunked_nll`
        # since 1.7, DPO chunks its logits since 1.14 and GRPO since 1.15 (sft_config.py, dpo_trainer.py and
        # grpo_trainer.py of the wheels 1.6.0 to 1.16.0 on PyPI, dated by their files; read 2026-11-27).
        earlier=(
            EarlierReleases(before="0.19", before_month="2025-06", facts={"recomputes": False, "tiles_loss": ()}),
            EarlierReleases(before="1.7", before_month="2026-07", facts={"tiles_loss": ()}),
            EarlierReleases(before="1.14", before_month="2026-09", facts={"tiles_loss": (Objective.SFT,)}),
            EarlierReleases(
                before="1.15", before_month="2026-10", facts={"tiles_loss": (Objective.SFT, Objective.DPO)}
            ),
        ),
    ),
    _trainer(
        name="llama-factory", states=States.AUTOCAST,
        accumulates_whole=True, recomputes=True, launch="llama-factory", release="LLaMA-Factory 0.9",
    ),
    _trainer(
        name="peft", states=States.PURE,
        accumulates_whole=True, widens_quantised=True, launch="accelerate", release="PEFT 0.19",
    ),
    _trainer(  # what preparing a quantised base widens is converted back for FlashAttention (loaders/model.py)
        name="axolotl", states=States.PURE,
        accumulates_whole=True, launch="axolotl", release="axolotl 0.12",
    ),
    _trainer(
        name="deepspeed", states=States.MASTER, gradient_bytes=2.0, copies_gradients=True,
        launch="accelerate", release="DeepSpeed 0.16",
    ),
    TrainingFramework(
        name="unsloth", family=Family.UNSLOTH, states=States.AUTOCAST, fuses_norm=True, fuses_activation=True,
        fuses_loss=True, keeps_no_logits=True, recomputes=True, release="unsloth 2026", launch="unsloth",
        # Cut cross entropy (Apple, arXiv 2411.09009) computes logits by tiles since 2024.11.
        earlier=(EarlierReleases(before="2024.11", before_month="2024-11", facts={"keeps_no_logits": False}),),
    ),
    TrainingFramework(
        name="xla", family=Family.XLA, states=States.AUTOCAST, fuses_norm=True, fuses_activation=True,
        tunes_attention=True, compiles=True, recomputes=True, checkpoints_aside=True, release="MaxText and PaxML 2024",
        launch="maxtext",
    ),
)  # fmt: skip
"""The frameworks that are known, each with the release that its facts were read of."""

_ALIASES = {
    "fsdp": "fsdp2", "hf": "hf-trainer", "transformers": "hf-trainer", "hf-deepspeed": "deepspeed",
    "llamafactory": "llama-factory", "megatron-lm": "megatron", "mcore": "megatron", "paxml (xla)": "xla",
    "maxtext (xla)": "xla", "maxtext": "xla", "lit-gpt": "litgpt", "llm-foundry": "composer",
    "megatron-core": "megatron", "accelerate": "hf-trainer", "ddp": "torchtune",
}  # fmt: skip


_VERSION = re.compile(r"\d+(?:\.\d+)*")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def find_framework(name: str, *, version: str | None = None, month: str | None = None) -> TrainingFramework:
    """Return a framework by its name or a common form of it, as of a release or a month; else as it is today.

    Args:
        version: Numbers between dots, such as 0.1; one newer than those known counts as the newest known.
        month: YYYY-MM, for a run whose release is not stated.
    """
    if version is not None and not _VERSION.fullmatch(version):
        raise UsageError(f"the release {version!r} of {name} is not numbers between dots, such as 0.6.")
    word = name.strip().lower()
    word = _ALIASES.get(word, word)
    known = {framework.name: framework for framework in FRAMEWORKS}
    if word not in known:
        raise UnknownNameError("framework of training", name, tuple(known), hint=f"Known: {', '.join(known)}.")
    found = known[word]
    for change in found.earlier:
        is_before = month is not None and month < change.before_month
        if version is not None:
            is_before = _numbers(version) < _numbers(change.before)
        if is_before:
            release = f"{found.name} {version}" if version else f"{found.name} of {month}"
            return replace(found, **change.facts, release=release)
    return found
