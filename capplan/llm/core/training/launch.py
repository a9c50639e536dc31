"""Write the configuration that starts a training job in its framework."""

from capplan.llm.core.training.job import (
    AttentionKernel,
    BaseFormat,
    Compute,
    Method,
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


def launch_config(job: TrainingJob) -> str | None:
    """Return a configuration of the parts that a plan decides; None for a framework of which none is written.

    Data sets, learning rates and paths are the user's; they are left out or marked.

    Args:
        job: The job.
    """
    writers = {
        "torchtitan": _torchtitan,
        "megatron": _megatron,
        "torchtune": _torchtune,
        "axolotl": _axolotl,
        "accelerate": _accelerate,
    }
    return writers[job.framework.launch](job) if job.framework.launch else None


def _nodes(job: TrainingJob) -> tuple[int, int]:
    layout = job.layout
    per_node = min(layout.gpus, layout.gpus_per_node)
    return -(-layout.gpus // per_node), per_node


def _torchtitan(job: TrainingJob) -> str:
    layout = job.layout
    mode = {Recompute.NONE: "none", Recompute.FULL: "full"}.get(job.recompute, "selective")
    nodes, per_node = _nodes(job)
    is_sharded = layout.shard is Shard.ZERO3
    group = layout.shard_group or layout.data
    # A pipeline divides the local batch into its micro-batches; without one, steps accumulate by themselves.
    local = job.micro_batch * (job.accumulation if layout.pipeline > 1 else 1)
    words = [
        f"torchrun --nnodes {nodes} --nproc-per-node {per_node} -m torchtitan.train --module MODULE --config CONFIG",
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
        words += [
            f"--parallelism.pipeline_parallel_microbatch_size {job.micro_batch}",
            f"--parallelism.pipeline_parallel_schedule {schedule}",
        ]
    words += ["--compile.enable"] * job.compiled
    words.append(f"activation-checkpoint:{mode}")
    head = f"# {job.architecture.name}, torchtitan 0.3: name your model's MODULE and CONFIG, such as llama3 llama3_8b"
    if job.compute in (Compute.FP8, Compute.MXFP8, Compute.NVFP4):
        head += f",\n# with a CONFIG whose converters make its linear layers {job.compute.value}"
    return f"{head}\n" + " \\\n  ".join(words) + "\n"


def _megatron(job: TrainingJob) -> str:
    layout = job.layout
    nodes, per_node = _nodes(job)
    layers = len(job.architecture.layers)
    words = [
        f"torchrun --nnodes {nodes} --nproc-per-node {per_node} pretrain_gpt.py",
        f"--tensor-model-parallel-size {layout.tensor}",
        f"--pipeline-model-parallel-size {layout.pipeline}",
        f"--context-parallel-size {layout.context}",
        f"--micro-batch-size {job.micro_batch}",
        f"--global-batch-size {job.global_batch}",
        f"--seq-length {job.sequence_tokens}",
        "--fp16" if job.compute is Compute.FP16 else "--bf16",
    ]
    if layout.tensor > 1:
        words.append("--sequence-parallel")
    if layout.virtual > 1:
        words.append(f"--num-layers-per-virtual-pipeline-stage {layers // (layout.pipeline * layout.virtual)}")
    if layout.expert > 1:
        words.append(f"--expert-model-parallel-size {layout.expert}")
    if layout.shard is not Shard.NONE:
        words.append("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather")
    if job.recompute is Recompute.FULL:
        words.append("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
    elif job.recompute is not Recompute.NONE:
        modules = "core_attn" if job.recompute is Recompute.ATTENTION else "layernorm mlp"
        words.append(f"--recompute-granularity selective --recompute-modules {modules}")
    if job.compute in (Compute.FP8, Compute.MXFP8):
        words.append("--fp8-format hybrid" + (" --fp8-recipe mxfp8" if job.compute is Compute.MXFP8 else ""))
    if job.compute is Compute.NVFP4:
        words.append("--fp4-format e2m1")
    return " \\\n  ".join(words) + "\n"


def _torchtune(job: TrainingJob) -> str:
    is_full = job.method is Method.FULL
    single = job.layout.gpus == 1
    recipe = ("full_finetune" if is_full else "lora_finetune") + ("_single_device" if single else "_distributed")
    lines = [
        f"# tune run{'' if single else f' --nproc_per_node {job.layout.gpus}'} {recipe} --config train.yaml",
        f"batch_size: {job.micro_batch}",
        f"gradient_accumulation_steps: {job.accumulation}",
        f"enable_activation_checkpointing: {job.recompute is Recompute.FULL}",
        f"compile: {job.compiled}",
        "dtype: bf16",
        "tokenizer:",
        f"  max_seq_len: {job.sequence_tokens}",
    ]
    if not is_full:
        attention = [_TUNE_NAMES[target] for target in job.adapter.targets if target in _TUNE_NAMES]
        mlp = bool({"gate_up", "down"} & set(job.adapter.targets))
        lines += [
            "model:",
            f"  lora_attn_modules: {attention}",
            f"  apply_lora_to_mlp: {mlp}",
            f"  lora_rank: {job.adapter.rank}",
            f"  quantize_base: {job.base is not BaseFormat.BF16}",
        ]
    if job.optimizer is OptimizerRecipe.PAGED_ADAMW_8BIT:
        lines += ["optimizer:", "  _component_: bitsandbytes.optim.PagedAdamW8bit"]
    return "\n".join(lines) + "\n"


def _axolotl(job: TrainingJob) -> str:
    lines = [
        "# axolotl train train.yaml",
        f"base_model: {job.architecture.publisher_id or job.architecture.name}",
        f"sequence_len: {job.sequence_tokens}",
        "sample_packing: true",
        f"micro_batch_size: {job.micro_batch}",
        f"gradient_accumulation_steps: {job.accumulation}",
        f"gradient_checkpointing: {str(job.recompute is Recompute.FULL).lower()}",
        f"attn_implementation: {'eager' if job.attention is AttentionKernel.EAGER else 'flash_attention_2'}",
        "bf16: true",
    ]
    if job.method is not Method.FULL:
        names = [name for target in job.adapter.targets for name in _PEFT_NAMES[target]]
        lines += [
            f"adapter: {job.method.value}",
            f"load_in_4bit: {str(job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ)).lower()}",
            f"lora_r: {job.adapter.rank}",
            f"lora_target_modules: [{', '.join(names)}]",
        ]
    if job.layout.shard is Shard.ZERO3:
        lines += ["fsdp_version: 2", "fsdp_config:", "  reshard_after_forward: true"]
    return "\n".join(lines) + "\n"


def _accelerate(job: TrainingJob) -> str:
    nodes, _ = _nodes(job)
    stages = {Shard.ZERO1: 1, Shard.ZERO2: 2, Shard.ZERO3: 3}
    stage = stages.get(job.layout.shard, 0)
    lines = [
        "# accelerate launch --config_file train.yaml YOUR_SCRIPT.py with these arguments:",
        f"#   --per_device_train_batch_size {job.micro_batch} --gradient_accumulation_steps {job.accumulation}",
        f"#   --max_length {job.sequence_tokens} --bf16"
        + (" --gradient_checkpointing" if job.recompute is Recompute.FULL else ""),
    ]
    if job.method is not Method.FULL:
        names = " ".join(name for target in job.adapter.targets for name in _PEFT_NAMES[target])
        quantised = " --load_in_4bit" if job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ) else ""
        lines.append(f"#   --use_peft --lora_r {job.adapter.rank} --lora_target_modules {names}{quantised}")
    kind = "NO"
    if job.layout.gpus > 1:
        kind = ("MULTI_GPU", "DEEPSPEED", "DEEPSPEED", "FSDP")[stage]
        kind = "DEEPSPEED" if job.framework.name == "deepspeed" and stage else kind
    lines += [
        "compute_environment: LOCAL_MACHINE",
        f"distributed_type: {kind}",
        "mixed_precision: bf16",
        f"num_machines: {nodes}",
        f"num_processes: {job.layout.gpus}",
    ]
    if kind == "FSDP":
        lines += [
            "fsdp_config:",
            "  fsdp_version: 2",
            "  fsdp_reshard_after_forward: true",
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
        ]
    elif kind == "DEEPSPEED":
        lines += ["deepspeed_config:", f"  zero_stage: {stage}"]
    return "\n".join(lines) + "\n"
