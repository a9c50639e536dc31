"""Write the configuration that starts a training job in its framework, and the files of platforms for its run."""

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.core.launch_files import (
    LaunchForms,
    MachinePlace,
    MachineShare,
    StartedKind,
    file_lines,
    filled,
    form_lines,
    form_words,
)
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import Attention, DenseMlp, Experts, LatentAttention
from capplan.llm.core.training.frameworks import FrameworkForms, States
from capplan.llm.core.training.job import BaseFormat, Compute, Offloaded, OptimizerRecipe, Recompute, Shard, TrainingJob
from capplan.llm.core.training.plan import PricedTraining
from capplan.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfig:
    """A configuration, and the command that starts a job by it as `train.yaml`; empty where it is a command itself.

    On several servers MASTER_ADDR names the first one, and NODE_RANK is the number of each.
    """

    text: str
    start: str


def launch_config(job: TrainingJob) -> LaunchConfig | None:
    """Return a configuration of the parts that a plan decides; None for a framework of which none is written.

    Data sets, learning rates and paths are the user's; they are left out or marked.
    """
    forms = job.framework.forms
    if forms is None or not job.framework.launch:
        return None
    form, words = forms.forms[job.framework.launch], _words(job, forms)
    words["recipe"] = forms.recipe_of(job.framework.launch, job.architecture.name, filled(form.recipe, words))
    words["named_recipe"] = words["recipe"] or form.place
    words["start"] = filled(form.start, words)
    arguments = form_lines(form.arguments, words)
    words["arguments"] = "\n".join(f"#   {line}" for line in arguments)
    left = ", ".join(filled(forms.left[word], words) for word in form.left if words[word])
    beside = [f"# left to you, as it cannot be said here: {left}"] if left else []
    text = "\n".join(
        [*form_lines(form.head, words), *beside, *filter(None, [" \\\n  ".join(form_lines(form.command, words))])]
    )
    return LaunchConfig(text=f"{text}\n", start=" ".join(filter(None, [words["start"], *arguments])))


def nodes_of(job: TrainingJob) -> tuple[int, int]:
    layout = job.layout
    per_node = min(layout.gpus, layout.gpus_per_node)
    return -(-layout.gpus // per_node), per_node


def _words(job: TrainingJob, forms: FrameworkForms) -> dict[str, str]:
    flags = _flags(job)
    spelt = {f"is_{name}": str(holds) for name, holds in flags.items()}
    spelt |= {f"lower_{name}": str(holds).lower() for name, holds in flags.items()}
    return form_words({**_texts(job, forms), **flags, **spelt}, forms.words)


def _texts(job: TrainingJob, forms: FrameworkForms) -> dict[str, object]:
    """Return the words and numbers of a job."""
    layout, model, targets = job.layout, job.architecture, job.adapter.targets
    nodes, per_node = nodes_of(job)
    group = layout.shard_group // layout.context if layout.shard_group else layout.data
    is_half = job.compute not in (Compute.TF32, Compute.FP32)
    zero3 = layout.shard is Shard.ZERO3
    names = {kind: " ".join(table[name] for name in targets if name in table) for kind, table in forms.matrices.items()}
    left = (f"# left to you: {what}" for what in dict.fromkeys(_beyond_megatron(model)))
    return {
        "space": " ",
        "model": model.name, "repository": model.publisher_id or "REPOSITORY",
        "nodes": nodes, "per_node": per_node, "gpus": layout.gpus, "micro_batch": job.micro_batch,
        "accumulation": job.accumulation, "global_batch": job.global_batch, "sequence": job.sequence_tokens,
        "tensor": layout.tensor, "pipeline": layout.pipeline, "virtual": layout.virtual, "context": layout.context,
        "expert": layout.expert, "expert_tensor": layout.expert_tensor, "data": layout.data, "rank": job.adapter.rank,
        "compute": job.compute.value, "recompute": job.recompute.value, "optimizer": job.optimizer.value,
        "attention": job.attention.value, "base": job.base.value, "method": job.method.value,
        "shard": layout.shard.value, "objective": job.objective.value,
        "completion": job.completion_tokens,
        "half": ("fp16" if job.compute is Compute.FP16 else "bf16") if is_half else "",
        # a pipeline divides the local batch into its micro-batches; without one, steps accumulate by themselves
        "local_batch": job.micro_batch * (job.accumulation if layout.pipeline > 1 else 1),
        "groups": max(1, layout.data // group) if zero3 else layout.data, "group": group if zero3 else 1,
        # MaxText's devices are the product of all its degrees, that of experts among them
        "plain_data": max(1, layout.data // layout.expert) if zero3 else 1, "copied_data": 1 if zero3 else layout.data,
        "device_batch": f"{job.micro_batch * layout.data / layout.gpus:g}",
        "positions": max(job.sequence_tokens, model.position_rows),
        "chunk_layers": len(model.layers) // (layout.pipeline * layout.virtual),
        "left_to_you": "\n".join(left), **_model_words(model),
        **{f"{kind}_{name}": words.replace(" ", joint) for kind, words in names.items()
           for name, joint in (("words", " "), ("list", ", "), ("commas", ","))},
    }  # fmt: skip


def _flags(job: TrainingJob) -> dict[str, bool]:
    """Return what holds of a job, and what its framework has to be asked for."""
    layout, model, targets = job.layout, job.architecture, job.adapter.targets
    nodes, _ = nodes_of(job)
    zero3 = layout.shard is Shard.ZERO3
    moved = {Offloaded.OPTIMIZER, Offloaded.PARAMETERS} & job.offloaded
    return {
        "several": nodes > 1, "alone": layout.gpus == 1, "adapted": job.is_adapted, "compiled": job.compiled,
        "pipelined": layout.pipeline > 1, "interleaved": layout.virtual > 1, "zero_bubble": layout.zero_bubble,
        "shares_matrices": layout.tensor > 1, "spreads_experts": layout.expert > 1, "zero3": zero3,
        "sharded": layout.shard is not Shard.NONE, "keeps_gathered": layout.keep_gathered,
        "moves_states": bool(moved), "offloads_optimizer": Offloaded.OPTIMIZER in job.offloaded,
        "offloads_parameters": Offloaded.PARAMETERS in job.offloaded,
        "offloads_activations": Offloaded.ACTIVATIONS in job.offloaded,
        "recomputes_all": job.recompute is Recompute.FULL, "rotates": bool(model.rope_dim),
        "in_backward": job.optimizer_in_backward, "adapts_mlp": bool({"gate_up", "down"} & set(targets)),
        "quantised": job.base is not BaseFormat.BF16, "four_bits": job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ),
        "deepspeed": job.framework.name == "deepspeed", "fused_loss": job.fused_loss,
        "loads_half": job.is_adapted or job.states is States.PURE,
        "generates": job.parts.generates,
        "pure_full": job.states is States.PURE and not job.is_adapted and job.compute is Compute.BF16,
        # what no framework does unless it is asked to
        "asks_compiler": job.compiled and not job.framework.compiles,
        "asks_fused_loss": job.fused_loss and not job.framework.fuses_loss,
        "asks_offload_without_ranks": bool(moved) and (layout.gpus == 1 or layout.shard is Shard.NONE),
        "asks_copies": layout.shard is Shard.NONE and layout.data > 1,
        "asks_fp8_base": job.base is BaseFormat.FP8, "asks_int8_base": job.base is BaseFormat.INT8,
        "asks_single_nf4": job.base is BaseFormat.NF4, "asks_fp16": job.compute is Compute.FP16,
        "asks_tf32": job.compute is Compute.TF32,
        "asks_beyond_maxtext": job.compute not in (Compute.BF16, Compute.FP32, Compute.FP8),
        "of_deepspeed_gathered": job.framework.name == "deepspeed" and layout.keep_gathered,
        "asks_zero1_or_2": layout.shard in (Shard.ZERO1, Shard.ZERO2) and layout.data > 1,
        "asks_zero2_or_3": layout.shard in (Shard.ZERO2, Shard.ZERO3) and layout.data > 1,
        "asks_some_recomputation": job.recompute in (Recompute.ATTENTION, Recompute.OPERATORS),
        "asks_attention_recomputed": job.recompute is Recompute.ATTENTION,
        "asks_adamw_no_more": job.optimizer is not OptimizerRecipe.ADAMW,
        "asks_narrow": job.compute in (Compute.FP8, Compute.MXFP8, Compute.NVFP4),
        "asks_other_than_bf16": job.compute is not Compute.BF16,
        "odd_for_unsloth": layout.gpus > 1 or job.optimizer is not OptimizerRecipe.ADAMW_8BIT,
    }  # fmt: skip


def _model_words(model: Architecture) -> dict[str, object]:
    """Return the words of a model's layers; a pattern of experts has zeros for layers without them."""
    mixer = next((layer.mixer for layer in model.layers if layer.mixer is not None), None)
    attention = mixer if isinstance(mixer, Attention) else None
    latent = mixer if isinstance(mixer, LatentAttention) else None
    mlps = [layer.mlp for layer in model.layers]
    dense = next((mlp for mlp in mlps if isinstance(mlp, DenseMlp)), None)
    experts = next((mlp for mlp in mlps if isinstance(mlp, Experts)), None)
    pattern = [str(int(isinstance(mlp, Experts))) for mlp in mlps]
    read = (
        ("attention", attention, ("query_heads", "kv_heads", "key_dim", "qkv_bias")),
        ("latent", latent, ("query_heads", "query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim")),
        ("experts", experts, ("count", "per_token", "width", "shared_width")),
    )
    return {
        "layers": len(mlps), "hidden": model.hidden_dim, "vocabulary": model.vocab_size, "tied": model.tied_embeddings,
        "width": dense.width if dense else experts.width if experts else 4 * model.hidden_dim,
        "grouped": attention is not None and attention.kv_heads != attention.query_heads,
        "normed": attention is not None and bool(attention.query_norm),
        "gated": any(mlp.gated for mlp in mlps if mlp is not None),
        "biased": isinstance(mlps[0], DenseMlp) and mlps[0].bias,
        "biased_norms": model.norm_parameters > model.hidden_dim, "learns_positions": bool(model.position_rows),
        "shared_experts": experts is not None and bool(experts.shared_width),
        "expert_pattern": ",".join(pattern) if experts is not None and "0" in pattern else None,
        **{f"{kind}_{name}": getattr(part, name, None) for kind, part, names in read for name in names},
    }  # fmt: skip


def _beyond_megatron(model: Architecture) -> Iterator[str]:
    """Yield in words what a model has that these arguments do not say."""
    for layer in model.layers:
        if layer.norm_parameters >= 4 * model.norm_parameters > 0:
            yield "its norms behind attention and MLP"
        match layer.mixer:
            case Attention() as mixer:
                if mixer.window is not None:
                    yield "attention windows"
                if mixer.sinks:
                    yield "attention sinks"
                if mixer.output_gate or mixer.keys_are_values or mixer.kv_owner is not None:
                    yield "its attention's gates or shared keys and values"
            case LatentAttention() as mixer:
                if mixer.indexer is not None:
                    yield "the selector of its sparse attention"
            case None:
                pass
            case _:
                yield "layers without softmax attention"
    if model.draft_layers:
        yield f"--mtp-num-layers {model.draft_layers}, if its multi-token prediction is trained, too"
    if model.vision is not None or model.vision_note:
        yield "its encoder of images"


def training_files(priced: PricedTraining, forms: LaunchForms) -> dict[str, str]:
    """Return the files that start a run, by name; none for a framework whose configuration is not written."""
    job, rent, run = priced.job, priced.offer, priced.run
    config = launch_config(job)
    if config is None:
        return {}
    nodes, each = nodes_of(job)
    place = MachinePlace(
        name=f"{job.architecture.name}-{job.framework.name}",
        gpu=priced.gpu_id,
        vendor=priced.estimate.memory.gpu.vendor,
        gpus=each,
        machines=(rent.machines_for(job.layout.gpus) if rent else None) or nodes,
        machine_gpus=each,
        rent=rent,
    )
    image = forms.images.get(f"training-{place.vendor}", forms.images["training"])
    minutes = f"{-(-run.wall_s.high // 60):.0f}" if run else ""
    words = {
        **forms.place_words(place),
        "image": image.name,
        "image_note": f"{image.note} {job.framework.name}",
        "servers": str(nodes),
        "script": f"{file_lines({'train.yaml': config.text})}\n{config.start}" if config.start else config.text,
        "why": f"{job.architecture.name}: {job.layout.words}",
        "time_limit": f"#SBATCH --time={minutes}  # minutes, which one run of twenty exceeds" if minutes else "",
    }
    words["why"] += f", {format_duration(run.wall_s.expected)}" if run else ""
    spread = MachineShare.SPANNED if nodes > 1 else MachineShare.WHOLE
    return forms.written(StartedKind.TRAINING, spread, place, words)
