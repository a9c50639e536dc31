"""Write the configuration that starts a training job in its framework."""

from collections.abc import Iterator

from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import Attention, DenseMlp, Experts, LatentAttention
from capplan.llm.core.training.frameworks import States
from capplan.llm.core.training.job import (
    AttentionImplementation,
    BaseFormat,
    Compute,
    Method,
    Offloaded,
    OptimizerRecipe,
    Recompute,
    Shard,
    TrainingJob,
)

_PEFT_NAMES = {
    "q": ("q_proj",), "k": ("k_proj",), "v": ("v_proj",), "o": ("o_proj",), "gate_up": ("gate_proj", "up_proj"),
    "down": ("down_proj",), "head": ("lm_head",),
}  # fmt: skip
_TUNE_NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "output_proj"}
_TRAINER_OPTIMIZERS = {
    OptimizerRecipe.ADAMW: "adamw_torch_fused", OptimizerRecipe.ADAMW_8BIT: "adamw_bnb_8bit",
    OptimizerRecipe.PAGED_ADAMW_8BIT: "paged_adamw_8bit", OptimizerRecipe.ADAMW_4BIT: "adamw_torch_4bit",
    OptimizerRecipe.ADAFACTOR: "adafactor", OptimizerRecipe.LION: "lion_32bit", OptimizerRecipe.SGD: "sgd",
}  # fmt: skip
"""Values of `optim` in Hugging Face's trainers (transformers.training_args.OptimizerNames)."""
_TUNE_OPTIMIZERS = {
    OptimizerRecipe.ADAMW: "torch.optim.AdamW", OptimizerRecipe.ADAMW_8BIT: "bitsandbytes.optim.AdamW8bit",
    OptimizerRecipe.PAGED_ADAMW_8BIT: "bitsandbytes.optim.PagedAdamW8bit",
    OptimizerRecipe.ADAMW_4BIT: "torchao.optim.AdamW4bit", OptimizerRecipe.ADAFACTOR: "torch.optim.Adafactor",
    OptimizerRecipe.MUON: "torch.optim.Muon", OptimizerRecipe.LION: "bitsandbytes.optim.Lion",
    OptimizerRecipe.SGD: "torch.optim.SGD",
}  # fmt: skip


def launch_config(job: TrainingJob) -> str | None:
    """Return a configuration of the parts that a plan decides; None for a framework of which none is written.

    Data sets, learning rates and paths are the user's; they are left out or marked.
    """
    writers = {
        "torchtitan": _torchtitan,
        "megatron": _megatron,
        "torchtune": _torchtune,
        "axolotl": _axolotl,
        "accelerate": _accelerate,
        "bridge": _bridge,
        "maxtext": _maxtext,
        "unsloth": _unsloth,
    }
    return writers[job.framework.launch](job) if job.framework.launch else None


def _half(job: TrainingJob) -> str | None:
    """Return the 16-bit format that operators beside matrix products run in, too; None for a job in 32 bits."""
    if job.compute in (Compute.TF32, Compute.FP32):
        return None
    return "fp16" if job.compute is Compute.FP16 else "bf16"


def _nodes(job: TrainingJob) -> tuple[int, int]:
    layout = job.layout
    per_node = min(layout.gpus, layout.gpus_per_node)
    return -(-layout.gpus // per_node), per_node


def _several(job: TrainingJob) -> list[str]:
    """Return the comment that tells where a command runs; none for one server."""
    nodes, _ = _nodes(job)
    return [f"# run it on each of the {nodes} servers, with MASTER_ADDR, the name of the first"] if nodes > 1 else []


def _torchrun(job: TrainingJob, *, word: str = "torchrun") -> str:
    """Return torchrun's words; several servers meet at the first one, which gives them their ranks."""
    nodes, per_node = _nodes(job)
    words = f"{word} --nnodes {nodes} --nproc-per-node {per_node}"
    meet = ' --rdzv-id train --rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:29500"'
    return words + meet * (nodes > 1)


def _command(job: TrainingJob, head: str, words: list[str]) -> str:
    return "\n".join([head, *_several(job), " \\\n  ".join(words)]) + "\n"


def _torchtitan(job: TrainingJob) -> str:
    layout = job.layout
    mode = {Recompute.NONE: "none", Recompute.FULL: "full"}.get(job.recompute, "selective")
    is_sharded = layout.shard is Shard.ZERO3
    group = layout.shard_group or layout.data
    # A pipeline divides the local batch into its micro-batches; without one, steps accumulate by themselves.
    local = job.micro_batch * (job.accumulation if layout.pipeline > 1 else 1)
    words = [
        f"{_torchrun(job)} -m torchtitan.train --module MODULE --config CONFIG",
        f"--training.local_batch_size {local}",
        f"--training.global_batch_size {job.global_batch}",
        f"--training.seq_len {job.sequence_tokens}",
        f"--parallelism.data_parallel_replicate_degree {max(1, layout.data // group) if is_sharded else layout.data}",
        f"--parallelism.data_parallel_shard_degree {group if is_sharded else 1}",
        f"--parallelism.tensor_parallel_degree {layout.tensor}",
        f"--parallelism.context_parallel_degree {layout.context}",
        f"--parallelism.expert_parallel_degree {layout.expert}",
        f"--parallelism.pipeline_parallel_degree {layout.pipeline}",
    ]
    if layout.pipeline > 1:
        schedule = "Interleaved1F1B" if layout.virtual > 1 else "1F1B"
        schedule = "InterleavedZeroBubble" if layout.zero_bubble else schedule
        words += [
            f"--parallelism.pipeline_parallel_microbatch_size {job.micro_batch}",
            f"--parallelism.pipeline_parallel_schedule {schedule}",
        ]
    words += ["--training.enable_cpu_offload"] * bool({Offloaded.OPTIMIZER, Offloaded.PARAMETERS} & job.offloaded)
    words += ["--parallelism.fsdp_reshard_after_forward never"] * layout.keep_gathered
    words += ["--compile.enable"] * job.compiled
    words += ["--training.mixed_precision_param float32"] * (_half(job) is None)
    words.append(f"activation-checkpoint:{mode}")
    head = f"# {job.architecture.name}, torchtitan 0.3: name your model's MODULE and CONFIG, such as llama3 llama3_8b"
    if job.compute in (Compute.FP8, Compute.MXFP8, Compute.NVFP4):
        head += f",\n# with a CONFIG whose converters make its linear layers {job.compute.value}"
    return _command(job, head, words)


def _megatron(job: TrainingJob) -> str:
    layout = job.layout
    layers = len(job.architecture.layers)
    words = [
        f"{_torchrun(job)} pretrain_gpt.py",
        *_megatron_model(job.architecture),
        f"--max-position-embeddings {max(job.sequence_tokens, job.architecture.position_rows)}",
        f"--tensor-model-parallel-size {layout.tensor}",
        f"--pipeline-model-parallel-size {layout.pipeline}",
        f"--context-parallel-size {layout.context}",
        f"--micro-batch-size {job.micro_batch}",
        f"--global-batch-size {job.global_batch}",
        f"--seq-length {job.sequence_tokens}",
    ]
    words += [f"--{half}"] if (half := _half(job)) else []
    words += ["--sequence-parallel"] * (layout.tensor > 1)
    if layout.virtual > 1:
        words.append(f"--num-layers-per-virtual-pipeline-stage {layers // (layout.pipeline * layout.virtual)}")
    if layout.expert > 1:
        words.append(
            f"--expert-model-parallel-size {layout.expert} --expert-tensor-parallel-size {layout.expert_tensor}"
        )
    if layout.shard is not Shard.NONE:
        words.append("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather")
    if job.recompute is Recompute.FULL:
        words.append("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
    elif job.recompute is not Recompute.NONE:
        modules = "core_attn" if job.recompute is Recompute.ATTENTION else "layernorm mlp"
        words.append(f"--recompute-granularity selective --recompute-modules {modules}")
    if job.compute in (Compute.FP8, Compute.MXFP8):
        words.append("--fp8-format hybrid" + (" --fp8-recipe mxfp8" if job.compute is Compute.MXFP8 else ""))
    words += ["--fp4-format e2m1"] * (job.compute is Compute.NVFP4)
    words += ["--optimizer-cpu-offload"] * (Offloaded.OPTIMIZER in job.offloaded)
    if job.optimizer in (OptimizerRecipe.SGD, OptimizerRecipe.MUON):
        words.append(f"--optimizer {job.optimizer.value}")
    head = [
        f"# {job.architecture.name}, Megatron-Core 0.16: add your tokenizer, data and learning rate"
        f"{', and --rotary-base of its config.json' if job.architecture.rope_dim else ''}",
        *(f"# left to you: {what}" for what in dict.fromkeys(_beyond_megatron(job.architecture))),
    ]
    return _command(job, "\n".join(head), words)


def _megatron_model(model: Architecture) -> Iterator[str]:
    """Yield Megatron's arguments of a model (megatron/training/arguments.py and TransformerConfig, Core 0.16)."""
    first = model.layers[0]
    dense = next((layer.mlp for layer in model.layers if isinstance(layer.mlp, DenseMlp)), None)
    experts = next((layer.mlp for layer in model.layers if isinstance(layer.mlp, Experts)), None)
    width = dense.width if dense else experts.width if experts else 4 * model.hidden_dim
    yield f"--num-layers {len(model.layers)} --hidden-size {model.hidden_dim} --ffn-hidden-size {width}"
    match next((layer.mixer for layer in model.layers if layer.mixer is not None), None):
        case Attention() as mixer:
            yield f"--num-attention-heads {mixer.query_heads} --kv-channels {mixer.key_dim}"
            if mixer.kv_heads != mixer.query_heads:
                yield f"--group-query-attention --num-query-groups {mixer.kv_heads}"
            if mixer.qkv_bias:
                yield "--add-qkv-bias"
            if mixer.query_norm:
                yield "--qk-layernorm"
        case LatentAttention() as mixer:
            yield f"--num-attention-heads {mixer.query_heads} --multi-latent-attention --kv-lora-rank {mixer.kv_rank}"
            if mixer.query_rank is not None:
                yield f"--q-lora-rank {mixer.query_rank}"
            yield f"--qk-head-dim {mixer.nope_dim} --qk-pos-emb-head-dim {mixer.rope_dim}"
            yield f"--v-head-dim {mixer.value_dim} --qk-layernorm"
        case _:
            pass
    yield f"--vocab-size {model.vocab_size} --make-vocab-size-divisible-by 1"
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights"
    yield f"--normalization {'RMSNorm' if model.norm_parameters <= model.hidden_dim else 'LayerNorm'}"
    yield f"--position-embedding-type {'learned_absolute' if model.position_rows else 'rope'}"
    gated = [layer.mlp.gated for layer in model.layers if layer.mlp is not None]
    if any(gated):
        yield "--swiglu"
    if not (isinstance(first.mlp, DenseMlp) and first.mlp.bias):
        yield "--disable-bias-linear"
    if experts is not None:
        yield from _megatron_experts(model, experts)


def _megatron_experts(model: Architecture, experts: Experts) -> Iterator[str]:
    """Yield Megatron's arguments of a mixture of experts; layers without one are zeros of its pattern."""
    yield f"--num-experts {experts.count} --moe-router-topk {experts.per_token} --moe-ffn-hidden-size {experts.width}"
    yield "--moe-grouped-gemm --moe-token-dispatcher-type alltoall"
    if experts.shared_width:
        yield f"--moe-shared-expert-intermediate-size {experts.shared_width}"
    pattern = [int(isinstance(layer.mlp, Experts)) for layer in model.layers]
    if not all(pattern):
        yield f"--moe-layer-freq '[{','.join(map(str, pattern))}]'"


def _beyond_megatron(model: Architecture) -> Iterator[str]:
    """Yield in words what a model has that these arguments do not say."""
    for layer in model.layers:
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


def _torchtune(job: TrainingJob) -> str:
    """Return overrides of a recipe's shipped configuration, which names model, tokenizer, data and loss."""
    is_full = job.method is Method.FULL
    single = job.layout.gpus == 1
    recipe = ("full_finetune" if is_full else "lora_finetune") + ("_single_device" if single else "_distributed")
    words = [
        f"{'tune run' if single else _torchrun(job, word='tune run')} {recipe} --config CONFIG",
        f"batch_size={job.micro_batch}",
        f"gradient_accumulation_steps={job.accumulation}",
        f"enable_activation_checkpointing={job.recompute is Recompute.FULL}",
        f"compile={job.compiled}",
        f"dtype={_half(job) or 'fp32'}",
        f"tokenizer.max_seq_len={job.sequence_tokens}",
    ]
    if not is_full:
        attention = ",".join(_TUNE_NAMES[target] for target in job.adapter.targets if target in _TUNE_NAMES)
        words += [
            f"'model.lora_attn_modules=[{attention}]'",
            f"model.apply_lora_to_mlp={bool({'gate_up', 'down'} & set(job.adapter.targets))}",
            f"model.lora_rank={job.adapter.rank}",
            f"model.quantize_base={job.base is not BaseFormat.BF16}",
        ]
    if job.optimizer in _TUNE_OPTIMIZERS:
        words.append(f"optimizer._component_={_TUNE_OPTIMIZERS[job.optimizer]}")
    words += ["optimizer_in_bwd=True clip_grad_norm=null"] * job.optimizer_in_backward
    words += ["enable_activation_offloading=True"] * (Offloaded.ACTIVATIONS in job.offloaded)
    is_moved = bool({Offloaded.OPTIMIZER, Offloaded.PARAMETERS} & job.offloaded)
    words += ["fsdp_cpu_offload=True"] * (is_moved and not single)
    words += ["fsdp_reshard_after_forward=False"] * job.layout.keep_gathered
    kind = "full" if is_full else "lora" if job.base is BaseFormat.BF16 else "qlora"
    head = (
        f"# {job.architecture.name}, torchtune 0.6: name your model's CONFIG of `tune ls`, such as "
        f"llama3_1/8B_{kind}{'_single_device' if single else ''}"
    )
    return _command(job, head, words)


def _bridge(job: TrainingJob) -> str:
    """Return overrides of a recipe of Megatron-Bridge, which NeMo's language models are trained by since 2025."""
    layout = job.layout
    words = [
        f"{_torchrun(job)} scripts/training/run_recipe.py --recipe RECIPE",
        f"--dataset {'llm-finetune' if job.is_adapted else 'llm-pretrain'}",
        f"dataset.seq_length={job.sequence_tokens} model.seq_length={job.sequence_tokens}",
        f"train.micro_batch_size={job.micro_batch} train.global_batch_size={job.global_batch}",
        f"model.tensor_model_parallel_size={layout.tensor} model.sequence_parallel={layout.tensor > 1}",
        f"model.pipeline_model_parallel_size={layout.pipeline} model.context_parallel_size={layout.context}",
        f"ddp.use_distributed_optimizer={layout.shard is not Shard.NONE}",
    ]
    words += [f"model.virtual_pipeline_model_parallel_size={layout.virtual}"] * (layout.virtual > 1)
    experts = f"model.expert_model_parallel_size={layout.expert}"
    words += [f"{experts} model.expert_tensor_parallel_size={layout.expert_tensor}"] * (layout.expert > 1)
    if job.recompute is Recompute.FULL:
        words.append("model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1")
    elif job.recompute is Recompute.NONE:
        words.append("model.recompute_granularity=null")
    else:
        modules = "core_attn" if job.recompute is Recompute.ATTENTION else "layernorm,mlp"
        words.append(f"model.recompute_granularity=selective 'model.recompute_modules=[{modules}]'")
    words += [f"peft.dim={job.adapter.rank}"] * job.is_adapted
    words += ["optimizer.optimizer_cpu_offload=True"] * (Offloaded.OPTIMIZER in job.offloaded)
    kind = "peft" if job.is_adapted else "pretrain"
    head = (
        f"# {job.architecture.name}, Megatron-Bridge 0.3: name its RECIPE, such as llama31_8b_{kind}_config, whose "
        f"formats\n# are to be {job.compute.value}, and add your data"
    )
    return _command(job, head, words)


def _maxtext(job: TrainingJob) -> str:
    """Return overrides of MaxText's base configuration; a device's batch is its share of a rank's."""
    layout = job.layout
    is_sharded = layout.shard is Shard.ZERO3
    policy = {Recompute.NONE: "minimal_with_context", Recompute.FULL: "full"}.get(job.recompute, "minimal")
    words = [
        "python3 -m MaxText.train src/MaxText/configs/base.yml model_name=MODEL run_name=NAME",
        f"per_device_batch_size={job.micro_batch * layout.data / layout.gpus:g}",
        f"gradient_accumulation_steps={job.accumulation} max_target_length={job.sequence_tokens}",
        f"ici_data_parallelism={1 if is_sharded else layout.data}",
        f"ici_fsdp_parallelism={layout.data if is_sharded else 1}",
        f"ici_tensor_parallelism={layout.tensor} ici_context_parallelism={layout.context}",
        f"ici_pipeline_parallelism={layout.pipeline} ici_expert_parallelism={layout.expert}",
        f"remat_policy={policy}",
    ]
    words += ["quantization=fp8"] * (job.compute is Compute.FP8)
    words += ["optimizer_memory_host_offload=True"] * (Offloaded.OPTIMIZER in job.offloaded)
    words += ["parameter_memory_host_offload=True"] * (Offloaded.PARAMETERS in job.offloaded)
    head = f"# {job.architecture.name}, MaxText: name its MODEL (src/MaxText/configs/models); hardware=gpu on GPUs"
    return _command(job, head, words)


def _unsloth(job: TrainingJob) -> str:
    names = [name for target in job.adapter.targets for name in _PEFT_NAMES[target]]
    lines = [
        "# unsloth train --config train.yaml",
        *["# it trains on one GPU and with adamw-8bit alone: another job needs a script of your own"]
        * (job.layout.gpus > 1 or job.optimizer is not OptimizerRecipe.ADAMW_8BIT),
        f"model: {job.architecture.publisher_id or f'REPOSITORY  # of {job.architecture.name}'}",
        "data:",
        "  dataset: YOUR_DATASET",
        "training:",
        f"  training_type: {'lora' if job.is_adapted else 'full'}",
        f"  max_seq_length: {job.sequence_tokens}",
        f"  load_in_4bit: {str(job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ)).lower()}",
        f"  batch_size: {job.micro_batch}",
        f"  gradient_accumulation_steps: {job.accumulation}",
        f"  gradient_checkpointing: {'unsloth' if job.recompute is Recompute.FULL else 'none'}",
    ]
    if job.is_adapted:
        lines += ["lora:", f"  lora_r: {job.adapter.rank}", f"  target_modules: {','.join(names)}"]
    return "\n".join(lines) + "\n"


def _axolotl(job: TrainingJob) -> str:
    checkpointing = "offload" if Offloaded.ACTIVATIONS in job.offloaded else "true"
    checkpointing = checkpointing if job.recompute is Recompute.FULL else "false"
    nodes, _ = _nodes(job)
    command = "axolotl train train.yaml"
    lines = [
        f"# {command}" + (f" --launcher torchrun -- {_torchrun(job, word='').strip()}" if nodes > 1 else ""),
        *_several(job),
        f"base_model: {job.architecture.publisher_id or f'REPOSITORY  # of {job.architecture.name}'}",
        f"sequence_len: {job.sequence_tokens}",
        "sample_packing: true",
        f"micro_batch_size: {job.micro_batch}",
        f"gradient_accumulation_steps: {job.accumulation}",
        f"gradient_checkpointing: {checkpointing}",
        f"optimizer: {_TRAINER_OPTIMIZERS.get(job.optimizer, job.optimizer.value)}",
        f"attn_implementation: {'eager' if job.attention is AttentionImplementation.EAGER else 'flash_attention_2'}",
        f"{half}: true" if (half := _half(job)) else f"bf16: false\ntf32: {str(job.compute is Compute.TF32).lower()}",
    ]
    if job.method is not Method.FULL:
        names = [name for target in job.adapter.targets for name in _PEFT_NAMES[target]]
        lines += [
            f"adapter: {job.method.value}",
            f"load_in_4bit: {str(job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ)).lower()}",
            *(["load_in_8bit: true"] if job.base is BaseFormat.INT8 else []),
            f"lora_r: {job.adapter.rank}",
            f"lora_target_modules: [{', '.join(names)}]",
        ]
    if job.layout.shard is Shard.ZERO3:
        lines += [
            "fsdp_version: 2",
            "fsdp_config:",
            "  auto_wrap_policy: TRANSFORMER_BASED_WRAP",
            f"  reshard_after_forward: {str(not job.layout.keep_gathered).lower()}",
        ]
        if {Offloaded.OPTIMIZER, Offloaded.PARAMETERS} & job.offloaded:
            lines.append("  offload_params: true")
    return "\n".join(lines) + "\n"


def _accelerate(job: TrainingJob) -> str:
    nodes, _ = _nodes(job)
    stages = {Shard.ZERO1: 1, Shard.ZERO2: 2, Shard.ZERO3: 3}
    stage = stages.get(job.layout.shard, 0)
    meets = " --machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR" if nodes > 1 else ""
    lines = [
        f"# accelerate launch --config_file train.yaml{meets} YOUR_SCRIPT.py,",
        "# with these arguments as TRL's scripts take them:",
        *(f"#   {words}" for words in _trainer_arguments(job)),
        *_several(job),
    ]
    kind = "NO"
    if job.layout.gpus > 1:
        kind = ("MULTI_GPU", "DEEPSPEED", "DEEPSPEED", "FSDP")[stage]
        kind = "DEEPSPEED" if job.framework.name == "deepspeed" and stage else kind
    lines += [
        "compute_environment: LOCAL_MACHINE",
        f"distributed_type: {kind}",
        "mixed_precision: " + (_half(job) or "'no'"),
        f"num_machines: {nodes}",
        f"num_processes: {job.layout.gpus}",
    ]
    if nodes > 1:
        lines += ["machine_rank: 0  # 0 on the first server; the command says it of each", "main_process_port: 29500"]
    optimizer, parameters = (item in job.offloaded for item in (Offloaded.OPTIMIZER, Offloaded.PARAMETERS))
    if kind == "FSDP":
        lines += [
            "fsdp_config:",
            "  fsdp_version: 2",
            f"  fsdp_reshard_after_forward: {str(not job.layout.keep_gathered).lower()}",
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
        ]
        lines += ["  fsdp_offload_params: true"] * (optimizer or parameters)
    elif kind == "DEEPSPEED":
        lines += ["deepspeed_config:", f"  zero_stage: {stage}"]
        lines += ["  deepspeed_multinode_launcher: standard"] * (nodes > 1)
        lines += ["  offload_optimizer_device: cpu"] * optimizer + ["  offload_param_device: cpu"] * parameters
    return "\n".join(lines) + "\n"


def _trainer_arguments(job: TrainingJob) -> list[str]:
    """Return the arguments of TRL's scripts (SFTConfig and ModelConfig) that a plan decides."""
    attention = "eager" if job.attention is AttentionImplementation.EAGER else "flash_attention_2"
    precision = f"--{half}" if (half := _half(job)) else f"--bf16 False --tf32 {job.compute is Compute.TF32}"
    # TRL checkpoints and loads weights in fp32 unless an option says otherwise.
    lines = [
        f"--per_device_train_batch_size {job.micro_batch} --gradient_accumulation_steps {job.accumulation}",
        f"--max_length {job.sequence_tokens} {precision} --gradient_checkpointing {job.recompute is Recompute.FULL}",
        f"--optim {_TRAINER_OPTIMIZERS.get(job.optimizer, job.optimizer.value)} --attn_implementation {attention}"
        f"{' --dtype bfloat16' if job.is_adapted or job.states is States.PURE else ''}"
        f"{' --use_liger_kernel' if job.fused_loss else ''}{' --torch_compile' if job.compiled else ''}",
    ]
    if job.is_adapted:
        names = " ".join(name for target in job.adapter.targets for name in _PEFT_NAMES[target])
        lines.append(f"--use_peft --lora_r {job.adapter.rank} --lora_target_modules {names}")
    if job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ):
        nested = " --use_bnb_nested_quant" if job.base is BaseFormat.NF4_DQ else ""
        lines.append(f"--load_in_4bit{nested}")
    elif job.base is BaseFormat.INT8:
        lines.append("--load_in_8bit")
    return lines
