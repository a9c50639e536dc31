"""capplan.llm: the verbs about serving large language models.

Made by `python -m capplan.api.stub` from the verbs' statements; do not edit.
"""

from collections.abc import Sequence
from pathlib import Path

from capplan.api.call import Shown
from capplan.core.engine_names import Asleep
from capplan.core.scaling.policy import Signal
from capplan.llm.core.elastic.answer import ElasticAnswer
from capplan.llm.core.fleet.money import PlannedFleet, ServingReport
from capplan.llm.core.fleet.shared_fleet import FleetAnswer
from capplan.llm.core.memory_answer import MemoryAnswer, SupportAnswer
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.search.fitted_runs import FittedServing
from capplan.llm.core.serving.accuracy import ServingValidation
from capplan.llm.core.serving.asked import Sampling, ServingTask, Statistic
from capplan.llm.core.serving.estimate import ServingEstimate
from capplan.llm.core.simulation.load_answer import Simulation
from capplan.llm.core.start.answer import StartAnswer
from capplan.llm.core.training.accuracy import TrainingValidation
from capplan.llm.core.training.estimate import TrainingMemoryAnswer
from capplan.llm.core.training.frameworks import States
from capplan.llm.core.training.job import AttentionImplementation, BaseFormat, Compute, Method, Offloaded, OptimizerRecipe, Recompute, Shard
from capplan.llm.core.training.objective import Objective
from capplan.llm.core.training.plan import PricedTraining, TrainingPlan
from capplan.llm.read.evidence import EvidenceTable
from capplan.specs.gpus.load import Gpus
from capplan.verbs.llm.fields import Prefill
from capplan.verbs.llm.fit import FittedMemoryFile

class _MemoryAnswerShown(Shown, MemoryAnswer): ...
class _ServingEstimateShown(Shown, ServingEstimate): ...
class _PlannedFleetShown(Shown, PlannedFleet): ...
class _SimulationShown(Shown, Simulation): ...
class _LanguageModelsShown(Shown, tuple[LanguageModel, ...]): ...
class _ElasticAnswerShown(Shown, ElasticAnswer): ...
class _StartAnswerShown(Shown, StartAnswer): ...
class _SupportAnswerShown(Shown, SupportAnswer): ...
class _ServingReportShown(Shown, ServingReport): ...
class _FleetAnswerShown(Shown, FleetAnswer): ...
class _ServingValidationShown(Shown, ServingValidation): ...
class _FittedServingShown(Shown, FittedServing): ...
class _EvidenceTableShown(Shown, EvidenceTable): ...
class _FittedMemoryFileShown(Shown, FittedMemoryFile): ...
class _TrainingMemoryAnswerShown(Shown, TrainingMemoryAnswer): ...
class _PricedTrainingShown(Shown, PricedTraining): ...
class _TrainingPlanShown(Shown, TrainingPlan): ...
class _TrainingValidationShown(Shown, TrainingValidation): ...

def memory(
    model: str,
    gpu: str,
    *,
    gpu_layers: int | None = ...,
    n_cpu_moe: int = ...,
    fit: bool = ...,
    kv_offload_bytes: float | str = ...,
    weights: str | None = ...,
    kv: str | None = ...,
    tp: int = ...,
    pp: int = ...,
    ep: int = ...,
    dp: int = ...,
    engine: str | None = ...,
    engine_version: str | None = ...,
    adapters: int = ...,
    lora_rank: int = ...,
    utilization_fraction: float | None = ...,
    draft_tokens: int = ...,
    drafter: str = ...,
    max_len: int | str | None = ...,
    max_num_batched_tokens: int | str | None = ...,
    max_num_seqs: int | None = ...,
    kv_pool_bytes: float | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _MemoryAnswerShown:
    """Divide a GPU's memory among weights, activations and the KV cache of a served language model.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        gpu: Exact id or alias of a GPU.
        gpu_layers: llama.cpp: layers on the GPU, the others in host memory; all by default.
        n_cpu_moe: llama.cpp: layers whose experts are in host memory.
        fit: llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).
        kv_offload_bytes: Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.
        weights: bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default.
        kv: Number format of the KV cache: bf16, fp8, q8_0, ...
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        ep: GPUs among which whole experts are distributed.
        dp: Ranks of attention data parallelism.
        engine: vllm, sglang, trtllm or llama.cpp; by default llama.cpp for GGUF files and formats, else vllm.
        engine_version: Version of the engine, such as 0.19; the newest by default.
        adapters: LoRA adapters that are resident at a time.
        lora_rank: Rank of the adapters.
        utilization_fraction: The engine's memory fraction; its default if left out.
        draft_tokens: Speculation: tokens drafted in each step; needs an acceptance.
        drafter: What drafts: head (a layer as EAGLE's or multi-token prediction's), eagle3, ngram (words seen before), or a model or head by name: qwen3-0.6b.
        max_len: Longest sequence served, such as 32K; the model's own limit by default.
        max_num_batched_tokens: Tokens of one step; the engine's default if left out.
        max_num_seqs: Sequences that run at once; the engine's default if left out.
        kv_pool_bytes: Take this cache per GPU, such as an engine's log states.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Memory rules of engines other than the shipped ones.

    Returns:
        How a GPU's memory is divided when it serves a language model.

    Raises:
        CapplanError: a name is not known, or the deployment is not possible.
    """

def estimate(
    model: str,
    gpu: str,
    *,
    gpu_layers: int | None = ...,
    n_cpu_moe: int = ...,
    fit: bool = ...,
    kv_offload_bytes: float | str = ...,
    weights: str | None = ...,
    kv: str | None = ...,
    tp: int = ...,
    pp: int = ...,
    ep: int = ...,
    dp: int = ...,
    engine: str | None = ...,
    engine_version: str | None = ...,
    cpu: str | None = ...,
    adapters: int = ...,
    lora_rank: int = ...,
    utilization_fraction: float | None = ...,
    sampling: Sampling | str = ...,
    link_bytes_per_s: float | str | None = ...,
    network_bytes_per_s: float | str | None = ...,
    prefill: Prefill | str | None = ...,
    token_budget: int | None = ...,
    max_seqs: int | None = ...,
    receive_interval: int | None = ...,
    measured: Sequence[str | Path] | str | None = ...,
    concurrency: Sequence[int] | str = ...,
    input_len: int | str = ...,
    output_len: int | str = ...,
    prefix_fraction: float = ...,
    draft_tokens: int = ...,
    drafter: str = ...,
    acceptance: float | None = ...,
    acceptance_rate: float | str | None = ...,
    acceptance_length: float | None = ...,
    acceptance_by_position: Sequence[float] | str | None = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    power_calibration: str | Path | None = ...,
    first_burst: bool = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _ServingEstimateShown:
    """Estimate how fast a served language model answers, with intervals and the evidence behind them.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        gpu: Exact id or alias of a GPU.
        gpu_layers: llama.cpp: layers on the GPU, the others in host memory; all by default.
        n_cpu_moe: llama.cpp: layers whose experts are in host memory.
        fit: llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).
        kv_offload_bytes: Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.
        weights: bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default.
        kv: Number format of the KV cache: bf16, fp8, q8_0, ...
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        ep: GPUs among which whole experts are distributed.
        dp: Ranks of attention data parallelism.
        engine: vllm, sglang, trtllm or llama.cpp; by default llama.cpp for GGUF files and formats, else vllm.
        engine_version: Version of the engine, such as 0.19; the newest by default.
        cpu: CPU of the host, for gpu_layers and n_cpu_moe (`capplan gpus --cpus`); a desktop's by default.
        adapters: LoRA adapters that are resident at a time.
        lora_rank: Rank of the adapters.
        utilization_fraction: The engine's memory fraction; its default if left out.
        sampling: greedy, or filtered: from the likely tokens (top-p, top-k), which vLLM sorts for.
        link_bytes_per_s: Both directions of the link between GPUs of a server, such as '900 GB/s'.
        network_bytes_per_s: Network of one GPU to other servers, one direction; '50 GB/s' by default.
        prefill: Prompts in decode steps, or alone; the engine's way by default.
        token_budget: Most tokens of a step; the engine's default.
        max_seqs: Most sequences at a time; the engine's default.
        receive_interval: Steps between two looks for new requests; the engine's default.
        measured: A measured run of this deployment: vLLM, SGLang, guidellm or llama-bench JSON, genai-perf CSV, or a serving CSV; repeatable.
        concurrency: Clients: 8, 1,8,32 or 1..256 (powers of two).
        input_len: Mean tokens of a prompt, such as 1024 or 8k.
        output_len: Mean tokens of an answer, such as 1024 or 1k.
        prefix_fraction: Share of a prompt that the prefix cache holds.
        draft_tokens: Speculation: tokens drafted in each step; needs an acceptance.
        drafter: What drafts: head (a layer as EAGLE's or multi-token prediction's), eagle3, ngram (words seen before), or a model or head by name: qwen3-0.6b.
        acceptance: Chance that a drafted token is accepted if those before it are.
        acceptance_rate: Instead: accepted ÷ drafted tokens, which vLLM logs as draft acceptance rate.
        acceptance_length: Instead: mean tokens of a step, which engines log as mean acceptance length or accept len.
        acceptance_by_position: Instead: the share of steps whose first, second, ... draft is accepted; repeatable.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        power_calibration: What your own GPUs draw: a file of `capplan calibrate power -o FILE`.
        first_burst: Count the first requests of all clients, sent at once, in TTFT, as benchmark tools do.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants from `capplan llm fit`; the shipped ones by default.

    Returns:
        How fast a deployment answers over concurrency.

    Raises:
        CapplanError: a name is not known, or the model does not fit.
    """

def plan(
    model: str,
    *,
    adapters: int = ...,
    lora_rank: int = ...,
    measured: Sequence[str | Path] | str | None = ...,
    rate_per_s: float | None = ...,
    concurrency: float | None = ...,
    prompts: int | None = ...,
    within_s: float | str | None = ...,
    runs_per_year: float | None = ...,
    users: int | None = ...,
    think_time_s: float | str | None = ...,
    turns: int = ...,
    turn_period_s: float | str = ...,
    input_len: int | str = ...,
    output_len: int | str = ...,
    prefix_fraction: float = ...,
    draft_tokens: int = ...,
    drafter: str = ...,
    acceptance: float | None = ...,
    acceptance_rate: float | str | None = ...,
    acceptance_length: float | None = ...,
    acceptance_by_position: Sequence[float] | str | None = ...,
    spread: float | None = ...,
    input_cv: float = ...,
    output_cv: float = ...,
    input_p99: int | str | None = ...,
    burstiness: float = ...,
    task: ServingTask | str = ...,
    documents: int = ...,
    images: int = ...,
    image_size: tuple[int, int] | str = ...,
    image_tokens: int | None = ...,
    max_ttft_s: float | str | None = ...,
    max_tpot_s: float | str | None = ...,
    max_e2e_s: float | str | None = ...,
    percentile: int | str = ...,
    certainty_fraction: float | str | None = ...,
    gpus: str | Gpus | Sequence[str] | None = ...,
    engines: Sequence[str] | str | None = ...,
    weights: Sequence[str] | str | None = ...,
    kv: str | None = ...,
    tp: Sequence[int] | int | None = ...,
    pp: Sequence[int] | int | None = ...,
    ep: Sequence[int] | int | None = ...,
    dp: Sequence[int] | int | None = ...,
    max_seqs: Sequence[int] | int | None = ...,
    redundancy: int = ...,
    gpu_layers: int | None = ...,
    n_cpu_moe: int = ...,
    fit: bool = ...,
    kv_offload_bytes: float | str = ...,
    cpu: str | None = ...,
    utilization_fraction: float | None = ...,
    sampling: Sampling | str = ...,
    link_bytes_per_s: float | str | None = ...,
    network_bytes_per_s: float | str | None = ...,
    growth_fraction: float | str = ...,
    years: int = ...,
    hours_of_use: str | None = ...,
    days_per_week: int = ...,
    api_usd_per_million_tokens: tuple[float, ...] | str | None = ...,
    max_usd_per_hour: float | None = ...,
    budget_usd_per_month: float | str | None = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    currency: str | None = ...,
    buyer: str | None = ...,
    deducts_vat: bool = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    power_calibration: str | Path | None = ...,
    max_power_draw_w: float | str | None = ...,
    load_file: str | Path | None = ...,
    week_file: str | Path | None = ...,
    requests_per_day: float | None = ...,
    days_in_use: int = ...,
    storage_bytes_per_s: float | str | None = ...,
    provision_s: float | str | None = ...,
    image_bytes: float | str | None = ...,
    pull_bytes_per_s: float | str | None = ...,
    compare_ways: bool = ...,
    running: str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
    here: bool = ...,
) -> _PlannedFleetShown:
    """Find the deployments of a language model that carry a load within limits, the cheapest first.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        adapters: LoRA adapters that are resident at a time.
        lora_rank: Rank of the adapters.
        measured: A measured run of this deployment: vLLM, SGLang, guidellm or llama-bench JSON, genai-perf CSV, or a serving CSV; repeatable.
        rate_per_s: Requests per second to all replicas together.
        concurrency: Clients that wait for answers, instead of a rate.
        prompts: Requests of a job that is done as a whole, instead of a rate; needs within_s.
        within_s: Time until which the job must be done: 8h.
        runs_per_year: Runs of the job a year, for its cost; 365 by default, or as many as fit into it.
        users: People who send a request, read the answer and pause, instead of a rate; needs think_time_s.
        think_time_s: Pause of a user between an answer and the next request: 30s.
        turns: Requests of a conversation, each behind all before it.
        turn_period_s: Time from one turn of a conversation to the next.
        input_len: Mean tokens of a prompt, such as 1024 or 8k.
        output_len: Mean tokens of an answer, such as 1024 or 1k.
        prefix_fraction: Share of a prompt that the prefix cache holds.
        draft_tokens: Speculation: tokens drafted in each step; needs an acceptance.
        drafter: What drafts: head (a layer as EAGLE's or multi-token prediction's), eagle3, ngram (words seen before), or a model or head by name: qwen3-0.6b.
        acceptance: Chance that a drafted token is accepted if those before it are.
        acceptance_rate: Instead: accepted ÷ drafted tokens, which vLLM logs as draft acceptance rate.
        acceptance_length: Instead: mean tokens of a step, which engines log as mean acceptance length or accept len.
        acceptance_by_position: Instead: the share of steps whose first, second, ... draft is accepted; repeatable.
        spread: Lengths vary evenly by ± this share; 0.11 by default, as most benchmarks draw them.
        input_cv: Log-normal prompts with this deviation ÷ mean.
        output_cv: Log-normal answers with this deviation ÷ mean.
        input_p99: Tokens that 99% of prompts stay below, instead of input_cv.
        burstiness: Squared variation of gaps: 1 is Poisson, more is burstier.
        task: generate, embed (a vector a text) or rerank (a score a document).
        documents: Documents of a request that is reranked.
        images: Images of a request, on top of input_len tokens.
        image_size: Pixels of an image.
        image_tokens: Tokens of an image; by the model's encoder and size by default.
        max_ttft_s: Limit of the time to first token: 1s.
        max_tpot_s: Limit of the time between tokens: 40ms.
        max_e2e_s: Limit of a whole answer: 10s.
        percentile: Requests that keep the limits: mean, 50, 90, 95, 99.
        certainty_fraction: Probability with which the limits are kept, as the intervals say; 90% by default.
        gpus: Only this GPU; repeatable. All rented data-centre GPUs by default.
        engines: vllm, sglang, trtllm (the default), llama.cpp or all; repeatable.
        weights: bf16, fp8, ...; repeatable; the checkpoint's by default.
        kv: Number format of the KV cache.
        tp: Tensor parallelism; repeatable.
        pp: Pipeline stages; repeatable.
        ep: Expert parallelism; repeatable.
        dp: Ranks of attention data parallelism; repeatable.
        max_seqs: Most sequences at a time in a replica; repeatable.
        redundancy: Replicas beyond need (N+k).
        gpu_layers: llama.cpp: layers on the GPU, the others in host memory; all by default.
        n_cpu_moe: llama.cpp: layers whose experts are in host memory.
        fit: llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).
        kv_offload_bytes: Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.
        cpu: CPU of the host, for gpu_layers and n_cpu_moe (`capplan gpus --cpus`); a desktop's by default.
        utilization_fraction: The engine's memory fraction; its default if left out.
        sampling: greedy, or filtered: from the likely tokens (top-p, top-k), which vLLM sorts for.
        link_bytes_per_s: Both directions of the link between GPUs of a server, such as '900 GB/s'.
        network_bytes_per_s: Network of one GPU to other servers, one direction; '50 GB/s' by default.
        growth_fraction: Growth of the load per year, such as 50% or 0.5.
        years: Years that rent and purchase are compared over.
        hours_of_use: Hours of a day with load, such as 8-18 or 22-6: rents by the hour are paid then; all by default.
        days_per_week: Days of a week with load.
        api_usd_per_million_tokens: USD that an API asks per million input and output tokens: 0.6,2.4; with that of cached input: 0.6,0.06,2.4.
        max_usd_per_hour: Most rent of all machines an hour.
        budget_usd_per_month: Most rent of all machines a month, such as 10k.
        providers: Only GPUs that this provider rents, at its prices; repeatable.
        regions: Only offers in this region, country (de) or area (eu); repeatable.
        currency: Also write the cost in this currency, with VAT: EUR at a dated reference rate, or EUR=1.08 at your own price in USD. That of regions by default.
        buyer: Country in which your company is established, such as de: its VAT and currency count.
        deducts_vat: You deduct VAT: it is not a cost.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        power_calibration: What your own GPUs draw: a file of `capplan calibrate power -o FILE`.
        max_power_draw_w: Most mean power of all GPUs of an answer, without the host, such as 400W.
        load_file: The load: a file of `capplan load`, or keys that are options of `capplan llm plan`; options other than their defaults win over it.
        week_file: WEEK.yaml: day (24 numbers) or week (168), requests_per_day, days_per_week, bursts.
        requests_per_day: Requests of a day in use, spread as an office uses them, instead of week_file.
        days_in_use: Days of a week with load, beside requests_per_day.
        storage_bytes_per_s: Rate at which the weights arrive, such as 2GB/s; from host memory by default.
        provision_s: Time until a new machine is there: 90s; the machine stands and holds the image by default.
        image_bytes: Image that a new machine pulls, 0 for none; 10 GB by default.
        pull_bytes_per_s: Rate at which a new machine pulls the image.
        compare_ways: Compare a fleet that stands, one that scales, GPUs by the second and an API over a week: week_file or requests_per_day, or a rate_per_s that stays.
        running: GPUs that carry the load: "6 x h100-sxm5-80gb", or "6 x l4 at 0.80", your USD for a GPU-hour.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants from `capplan llm fit`; the shipped ones by default.
        here: Plan for the GPUs of this machine; without a model, for the largest that they hold.

    Returns:
        The deployments that carry a load within limits, the cheapest first.

    Raises:
        CapplanError: a name is not known, or the load is empty or too long for the model.
    """

def simulate(
    model: str,
    gpu: str,
    *,
    measured: Sequence[str | Path] | str | None = ...,
    rates_per_s: float | Sequence[float] | str | None = ...,
    concurrency: Sequence[int] | str | None = ...,
    in_bursts: bool = ...,
    lengths: str | Path | None = ...,
    daily: Sequence[float] | str | None = ...,
    requests: int = ...,
    turns: int = ...,
    turn_period_s: float | str = ...,
    gpu_layers: int | None = ...,
    n_cpu_moe: int = ...,
    fit: bool = ...,
    kv_offload_bytes: float | str = ...,
    weights: str | None = ...,
    kv: str | None = ...,
    tp: int = ...,
    pp: int = ...,
    ep: int = ...,
    dp: int = ...,
    engine: str | None = ...,
    engine_version: str | None = ...,
    cpu: str | None = ...,
    adapters: int = ...,
    lora_rank: int = ...,
    utilization_fraction: float | None = ...,
    sampling: Sampling | str = ...,
    link_bytes_per_s: float | str | None = ...,
    network_bytes_per_s: float | str | None = ...,
    prefill: Prefill | str | None = ...,
    token_budget: int | None = ...,
    max_seqs: int | None = ...,
    receive_interval: int | None = ...,
    storage_bytes_per_s: float | str | None = ...,
    provision_s: float | str | None = ...,
    image_bytes: float | str | None = ...,
    pull_bytes_per_s: float | str | None = ...,
    compiled: bool = ...,
    asleep: Asleep | str | None = ...,
    eager: bool = ...,
    graphs: int | None = ...,
    week_file: str | Path | None = ...,
    requests_per_day: float | None = ...,
    days_in_use: int = ...,
    scaler: str = ...,
    signal: Signal | str | None = ...,
    target: float | None = ...,
    min_replicas: int | None = ...,
    max_replicas: int | None = ...,
    look_every_s: float | str | None = ...,
    up_delay_s: float | str | None = ...,
    down_delay_s: float | str | None = ...,
    idle_s: float | str | None = ...,
    minimum_charge_s: float | str | None = ...,
    share: float | str = ...,
    certainty_fraction: float | str = ...,
    input_len: int | str = ...,
    output_len: int | str = ...,
    prefix_fraction: float = ...,
    draft_tokens: int = ...,
    drafter: str = ...,
    acceptance: float | None = ...,
    acceptance_rate: float | str | None = ...,
    acceptance_length: float | None = ...,
    acceptance_by_position: Sequence[float] | str | None = ...,
    spread: float | None = ...,
    input_cv: float = ...,
    output_cv: float = ...,
    input_p99: int | str | None = ...,
    burstiness: float = ...,
    task: ServingTask | str = ...,
    documents: int = ...,
    images: int = ...,
    image_size: tuple[int, int] | str = ...,
    image_tokens: int | None = ...,
    max_ttft_s: float | str | None = ...,
    max_tpot_s: float | str | None = ...,
    max_e2e_s: float | str | None = ...,
    percentile: int | str = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    power_calibration: str | Path | None = ...,
    load_file: str | Path | None = ...,
) -> _SimulationShown:
    """Simulate continuous batching under a load: percentiles of TTFT, TPOT, ITL and end-to-end time, and goodput.

    Args:
        measured: A measured run of this deployment: vLLM, SGLang, guidellm or llama-bench JSON, genai-perf CSV, or a serving CSV; repeatable.
        rates_per_s: Requests per second to one replica: 2, 1,2,4 or 1..16.
        concurrency: Clients that wait for answers, instead of a rate.
        in_bursts: Clients send together, and again when the last of them has its answer, as many benchmarks do.
        lengths: Requests with input_len, output_len and, if known, arrival_s and cached_len; or a trace of Azure, BurstGPT or Mooncake.
        daily: Shape of a day: requests in each part of it, in any unit.
        requests: Requests to simulate at each load.
        turns: Requests of a conversation, each behind all before it.
        turn_period_s: Time from one turn of a conversation to the next.
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        gpu: Exact id or alias of a GPU.
        gpu_layers: llama.cpp: layers on the GPU, the others in host memory; all by default.
        n_cpu_moe: llama.cpp: layers whose experts are in host memory.
        fit: llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).
        kv_offload_bytes: Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.
        weights: bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default.
        kv: Number format of the KV cache: bf16, fp8, q8_0, ...
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        ep: GPUs among which whole experts are distributed.
        dp: Ranks of attention data parallelism.
        engine: vllm, sglang, trtllm or llama.cpp; by default llama.cpp for GGUF files and formats, else vllm.
        engine_version: Version of the engine, such as 0.19; the newest by default.
        cpu: CPU of the host, for gpu_layers and n_cpu_moe (`capplan gpus --cpus`); a desktop's by default.
        adapters: LoRA adapters that are resident at a time.
        lora_rank: Rank of the adapters.
        utilization_fraction: The engine's memory fraction; its default if left out.
        sampling: greedy, or filtered: from the likely tokens (top-p, top-k), which vLLM sorts for.
        link_bytes_per_s: Both directions of the link between GPUs of a server, such as '900 GB/s'.
        network_bytes_per_s: Network of one GPU to other servers, one direction; '50 GB/s' by default.
        prefill: Prompts in decode steps, or alone; the engine's way by default.
        token_budget: Most tokens of a step; the engine's default.
        max_seqs: Most sequences at a time; the engine's default.
        receive_interval: Steps between two looks for new requests; the engine's default.
        storage_bytes_per_s: Rate at which the weights arrive, such as 2GB/s; from host memory by default.
        provision_s: Time until a new machine is there: 90s; the machine stands and holds the image by default.
        image_bytes: Image that a new machine pulls, 0 for none; 10 GB by default.
        pull_bytes_per_s: Rate at which a new machine pulls the image.
        compiled: The compiler's cache holds the model from an earlier start, as on a shared volume.
        asleep: What the engine wakes from: sleep-1 (weights in host memory), sleep-2 (read anew) or snapshot.
        eager: Without compiler and CUDA graphs (--enforce-eager).
        graphs: Batch sizes for which CUDA graphs are captured; those of the engine by default.
        week_file: WEEK.yaml: day (24 numbers) or week (168), requests_per_day, days_per_week, bursts.
        requests_per_day: Requests of a day in use, spread as an office uses them, instead of week_file.
        days_in_use: Days of a week with load, beside requests_per_day.
        scaler: hpa, keda, knative, ray-serve, sagemaker or llm-d, by its documented rules.
        signal: What it looks at: in-flight, queue, rate, utilisation or ttft; the usual one by default.
        target: The signal that one replica should have; what its highest rate within the limits has by default.
        min_replicas: Replicas at least; the cheapest that keeps the share by default.
        max_replicas: Replicas at most; twice the standing fleet by default.
        look_every_s: Time between two looks.
        up_delay_s: How long more must be wanted.
        down_delay_s: How long fewer must be wanted.
        idle_s: Time without a request until no replica is kept.
        minimum_charge_s: Shortest time that a machine is charged for; the offer's by default.
        share: Share of the requests that keeps the limits.
        certainty_fraction: Probability of that, as the interval of the start says.
        input_len: Mean tokens of a prompt, such as 1024 or 8k.
        output_len: Mean tokens of an answer, such as 1024 or 1k.
        prefix_fraction: Share of a prompt that the prefix cache holds.
        draft_tokens: Speculation: tokens drafted in each step; needs an acceptance.
        drafter: What drafts: head (a layer as EAGLE's or multi-token prediction's), eagle3, ngram (words seen before), or a model or head by name: qwen3-0.6b.
        acceptance: Chance that a drafted token is accepted if those before it are.
        acceptance_rate: Instead: accepted ÷ drafted tokens, which vLLM logs as draft acceptance rate.
        acceptance_length: Instead: mean tokens of a step, which engines log as mean acceptance length or accept len.
        acceptance_by_position: Instead: the share of steps whose first, second, ... draft is accepted; repeatable.
        spread: Lengths vary evenly by ± this share; 0.11 by default, as most benchmarks draw them.
        input_cv: Log-normal prompts with this deviation ÷ mean.
        output_cv: Log-normal answers with this deviation ÷ mean.
        input_p99: Tokens that 99% of prompts stay below, instead of input_cv.
        burstiness: Squared variation of gaps: 1 is Poisson, more is burstier.
        task: generate, embed (a vector a text) or rerank (a score a document).
        documents: Documents of a request that is reranked.
        images: Images of a request, on top of input_len tokens.
        image_size: Pixels of an image.
        image_tokens: Tokens of an image; by the model's encoder and size by default.
        max_ttft_s: Limit of the time to first token: 1s.
        max_tpot_s: Limit of the time between tokens: 40ms.
        max_e2e_s: Limit of a whole answer: 10s.
        percentile: Requests that keep the limits: mean, 50, 90, 95, 99.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants from `capplan llm fit`; the shipped ones by default.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        power_calibration: What your own GPUs draw: a file of `capplan calibrate power -o FILE`.
        load_file: The load: a file of `capplan load`, or keys that are options of `capplan llm plan`; options other than their defaults win over it.

    Returns:
        What requests see at each load, by simulating a replica.

    Raises:
        CapplanError: a name is not known, the model does not fit, or no load is stated.
    """

def models(
    *names: Sequence[str] | str | None,
    where: Sequence[str] | str | None = ...,
) -> _LanguageModelsShown:
    """List the language models that capplan knows, with filters.

    Args:
        names: Show these only: catalogue names or hf: files.
        where: 'params < 40B', 'moe = yes and context >= 128k', 'attention = mla'; repeatable.

    Returns:
        The language models that a question names, or all that are known, as far as they meet its conditions.

    Raises:
        CapplanError: a name is not known, or a condition cannot be read.
    """

def scale(
    model: str,
    gpu: str,
    *,
    load_file: str | Path | None = ...,
    week_file: str | Path | None = ...,
    requests_per_day: float | None = ...,
    days_in_use: int = ...,
    gpu_layers: int | None = ...,
    n_cpu_moe: int = ...,
    fit: bool = ...,
    kv_offload_bytes: float | str = ...,
    weights: str | None = ...,
    kv: str | None = ...,
    tp: int = ...,
    pp: int = ...,
    ep: int = ...,
    dp: int = ...,
    engine: str | None = ...,
    engine_version: str | None = ...,
    cpu: str | None = ...,
    adapters: int = ...,
    lora_rank: int = ...,
    utilization_fraction: float | None = ...,
    sampling: Sampling | str = ...,
    link_bytes_per_s: float | str | None = ...,
    network_bytes_per_s: float | str | None = ...,
    prefill: Prefill | str | None = ...,
    token_budget: int | None = ...,
    max_seqs: int | None = ...,
    receive_interval: int | None = ...,
    storage_bytes_per_s: float | str | None = ...,
    provision_s: float | str | None = ...,
    image_bytes: float | str | None = ...,
    pull_bytes_per_s: float | str | None = ...,
    compiled: bool = ...,
    asleep: Asleep | str | None = ...,
    eager: bool = ...,
    graphs: int | None = ...,
    scaler: str = ...,
    signal: Signal | str | None = ...,
    target: float | None = ...,
    min_replicas: int | None = ...,
    max_replicas: int | None = ...,
    look_every_s: float | str | None = ...,
    up_delay_s: float | str | None = ...,
    down_delay_s: float | str | None = ...,
    idle_s: float | str | None = ...,
    minimum_charge_s: float | str | None = ...,
    share: float | str = ...,
    certainty_fraction: float | str = ...,
    input_len: int | str = ...,
    output_len: int | str = ...,
    prefix_fraction: float = ...,
    draft_tokens: int = ...,
    drafter: str = ...,
    acceptance: float | None = ...,
    acceptance_rate: float | str | None = ...,
    acceptance_length: float | None = ...,
    acceptance_by_position: Sequence[float] | str | None = ...,
    spread: float | None = ...,
    input_cv: float = ...,
    output_cv: float = ...,
    input_p99: int | str | None = ...,
    burstiness: float = ...,
    task: ServingTask | str = ...,
    documents: int = ...,
    images: int = ...,
    image_size: tuple[int, int] | str = ...,
    image_tokens: int | None = ...,
    max_ttft_s: float | str | None = ...,
    max_tpot_s: float | str | None = ...,
    max_e2e_s: float | str | None = ...,
    percentile: int | str = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _ElasticAnswerShown:
    """Follow a fleet that scales with its load over a week: cost beside the standing fleet, limits, bursts.

    Exit 1 if no setting keeps the share of the requests that is asked for.

    Args:
        load_file: The load: a file of `capplan load`, or keys that are options of `capplan llm plan`; options other than their defaults win over it.
        week_file: WEEK.yaml: day (24 numbers) or week (168), requests_per_day, days_per_week, bursts.
        requests_per_day: Requests of a day in use, spread as an office uses them, instead of week_file.
        days_in_use: Days of a week with load, beside requests_per_day.
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        gpu: Exact id or alias of a GPU.
        gpu_layers: llama.cpp: layers on the GPU, the others in host memory; all by default.
        n_cpu_moe: llama.cpp: layers whose experts are in host memory.
        fit: llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).
        kv_offload_bytes: Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.
        weights: bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default.
        kv: Number format of the KV cache: bf16, fp8, q8_0, ...
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        ep: GPUs among which whole experts are distributed.
        dp: Ranks of attention data parallelism.
        engine: vllm, sglang, trtllm or llama.cpp; by default llama.cpp for GGUF files and formats, else vllm.
        engine_version: Version of the engine, such as 0.19; the newest by default.
        cpu: CPU of the host, for gpu_layers and n_cpu_moe (`capplan gpus --cpus`); a desktop's by default.
        adapters: LoRA adapters that are resident at a time.
        lora_rank: Rank of the adapters.
        utilization_fraction: The engine's memory fraction; its default if left out.
        sampling: greedy, or filtered: from the likely tokens (top-p, top-k), which vLLM sorts for.
        link_bytes_per_s: Both directions of the link between GPUs of a server, such as '900 GB/s'.
        network_bytes_per_s: Network of one GPU to other servers, one direction; '50 GB/s' by default.
        prefill: Prompts in decode steps, or alone; the engine's way by default.
        token_budget: Most tokens of a step; the engine's default.
        max_seqs: Most sequences at a time; the engine's default.
        receive_interval: Steps between two looks for new requests; the engine's default.
        storage_bytes_per_s: Rate at which the weights arrive, such as 2GB/s; from host memory by default.
        provision_s: Time until a new machine is there: 90s; the machine stands and holds the image by default.
        image_bytes: Image that a new machine pulls, 0 for none; 10 GB by default.
        pull_bytes_per_s: Rate at which a new machine pulls the image.
        compiled: The compiler's cache holds the model from an earlier start, as on a shared volume.
        asleep: What the engine wakes from: sleep-1 (weights in host memory), sleep-2 (read anew) or snapshot.
        eager: Without compiler and CUDA graphs (--enforce-eager).
        graphs: Batch sizes for which CUDA graphs are captured; those of the engine by default.
        scaler: hpa, keda, knative, ray-serve, sagemaker or llm-d, by its documented rules.
        signal: What it looks at: in-flight, queue, rate, utilisation or ttft; the usual one by default.
        target: The signal that one replica should have; what its highest rate within the limits has by default.
        min_replicas: Replicas at least; the cheapest that keeps the share by default.
        max_replicas: Replicas at most; twice the standing fleet by default.
        look_every_s: Time between two looks.
        up_delay_s: How long more must be wanted.
        down_delay_s: How long fewer must be wanted.
        idle_s: Time without a request until no replica is kept.
        minimum_charge_s: Shortest time that a machine is charged for; the offer's by default.
        share: Share of the requests that keeps the limits.
        certainty_fraction: Probability of that, as the interval of the start says.
        input_len: Mean tokens of a prompt, such as 1024 or 8k.
        output_len: Mean tokens of an answer, such as 1024 or 1k.
        prefix_fraction: Share of a prompt that the prefix cache holds.
        draft_tokens: Speculation: tokens drafted in each step; needs an acceptance.
        drafter: What drafts: head (a layer as EAGLE's or multi-token prediction's), eagle3, ngram (words seen before), or a model or head by name: qwen3-0.6b.
        acceptance: Chance that a drafted token is accepted if those before it are.
        acceptance_rate: Instead: accepted ÷ drafted tokens, which vLLM logs as draft acceptance rate.
        acceptance_length: Instead: mean tokens of a step, which engines log as mean acceptance length or accept len.
        acceptance_by_position: Instead: the share of steps whose first, second, ... draft is accepted; repeatable.
        spread: Lengths vary evenly by ± this share; 0.11 by default, as most benchmarks draw them.
        input_cv: Log-normal prompts with this deviation ÷ mean.
        output_cv: Log-normal answers with this deviation ÷ mean.
        input_p99: Tokens that 99% of prompts stay below, instead of input_cv.
        burstiness: Squared variation of gaps: 1 is Poisson, more is burstier.
        task: generate, embed (a vector a text) or rerank (a score a document).
        documents: Documents of a request that is reranked.
        images: Images of a request, on top of input_len tokens.
        image_size: Pixels of an image.
        image_tokens: Tokens of an image; by the model's encoder and size by default.
        max_ttft_s: Limit of the time to first token: 1s.
        max_tpot_s: Limit of the time between tokens: 40ms.
        max_e2e_s: Limit of a whole answer: 10s.
        percentile: Requests that keep the limits: mean, 50, 90, 95, 99.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants from `capplan llm fit`; the shipped ones by default.

    Returns:
        What a fleet that follows its load costs and keeps, beside one that stands.

    Raises:
        CapplanError: a name is not known, the model does not fit, no machine is rented, or no replica keeps the limits.
    """

def start(
    model: str,
    gpu: str,
    *,
    gpu_layers: int | None = ...,
    n_cpu_moe: int = ...,
    fit: bool = ...,
    kv_offload_bytes: float | str = ...,
    weights: str | None = ...,
    kv: str | None = ...,
    tp: int = ...,
    pp: int = ...,
    ep: int = ...,
    dp: int = ...,
    engine: str | None = ...,
    engine_version: str | None = ...,
    storage_bytes_per_s: float | str | None = ...,
    provision_s: float | str | None = ...,
    image_bytes: float | str | None = ...,
    pull_bytes_per_s: float | str | None = ...,
    compiled: bool = ...,
    asleep: Asleep | str | None = ...,
    eager: bool = ...,
    graphs: int | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
) -> _StartAnswerShown:
    """Estimate how long a replica of a language model takes to start, from machine and image to graphs.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        gpu: Exact id or alias of a GPU.
        gpu_layers: llama.cpp: layers on the GPU, the others in host memory; all by default.
        n_cpu_moe: llama.cpp: layers whose experts are in host memory.
        fit: llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).
        kv_offload_bytes: Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.
        weights: bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default.
        kv: Number format of the KV cache: bf16, fp8, q8_0, ...
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        ep: GPUs among which whole experts are distributed.
        dp: Ranks of attention data parallelism.
        engine: vllm, sglang, trtllm or llama.cpp; by default llama.cpp for GGUF files and formats, else vllm.
        engine_version: Version of the engine, such as 0.19; the newest by default.
        storage_bytes_per_s: Rate at which the weights arrive, such as 2GB/s; from host memory by default.
        provision_s: Time until a new machine is there: 90s; the machine stands and holds the image by default.
        image_bytes: Image that a new machine pulls, 0 for none; 10 GB by default.
        pull_bytes_per_s: Rate at which a new machine pulls the image.
        compiled: The compiler's cache holds the model from an earlier start, as on a shared volume.
        asleep: What the engine wakes from: sleep-1 (weights in host memory), sleep-2 (read anew) or snapshot.
        eager: Without compiler and CUDA graphs (--enforce-eager).
        graphs: Batch sizes for which CUDA graphs are captured; those of the engine by default.
        specs: Own GPU specs, laid over the built-in ones.

    Returns:
        How long a replica takes to start, part by part.

    Raises:
        CapplanError: a name is not known, or no start of the engine is known.
    """

def support(
    model: str,
    gpu: str,
    *,
    specs: Sequence[str | Path] | str | None = ...,
) -> _SupportAnswerShown:
    """Tell which engines read which formats of a language model's weights on a GPU, and since which version.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        gpu: Exact id or alias of a GPU.
        specs: Own GPU specs, laid over the built-in ones.

    Returns:
        Which engines read which formats of a model's weights on a GPU, since which version.

    Raises:
        CapplanError: a name is not known.
    """

def report(
    model: str,
    *,
    measured: Sequence[str | Path] | str | None = ...,
    week_file: str | Path | None = ...,
    requests_per_day: float | None = ...,
    days_in_use: int = ...,
    storage_bytes_per_s: float | str | None = ...,
    provision_s: float | str | None = ...,
    image_bytes: float | str | None = ...,
    pull_bytes_per_s: float | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
    load: str | Path | None = ...,
    gpus: str | Gpus | Sequence[str] | None = ...,
    title: str | None = ...,
) -> _ServingReportShown:
    """Report which deployment serves a language model under a load: fleet, money, latency over the load, launch.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf.
        measured: A measured run of this deployment: vLLM, SGLang, guidellm or llama-bench JSON, genai-perf CSV, or a serving CSV; repeatable.
        week_file: WEEK.yaml: day (24 numbers) or week (168), requests_per_day, days_per_week, bursts.
        requests_per_day: Requests of a day in use, spread as an office uses them, instead of week_file.
        days_in_use: Days of a week with load, beside requests_per_day.
        storage_bytes_per_s: Rate at which the weights arrive, such as 2GB/s; from host memory by default.
        provision_s: Time until a new machine is there: 90s; the machine stands and holds the image by default.
        image_bytes: Image that a new machine pulls, 0 for none; 10 GB by default.
        pull_bytes_per_s: Rate at which a new machine pulls the image.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants from `capplan llm fit`; the shipped ones by default.
        load: The load and its limits; keys are options of `capplan llm plan`.
        gpus: Only this GPU, in the place of those of the load; repeatable.
        title: Title of the report.

    Returns:
        The plan of a load, a replica of it from idle to saturation, and what changes with the load.

    Raises:
        CapplanError: a name is not known, or the load is refused.
    """

def fleet(
    file: str | Path | None,
    *,
    measured: Sequence[str | Path] | str | None = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    currency: str | None = ...,
    buyer: str | None = ...,
    deducts_vat: bool = ...,
    max_usd_per_hour: float | None = ...,
    budget_usd_per_month: float | str | None = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    power_calibration: str | Path | None = ...,
    max_power_draw_w: float | str | None = ...,
    share_gpus: bool = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _FleetAnswerShown:
    """Find the fleet that serves several language models together, on one kind of GPU or mixed, the cheapest first.

    Args:
        measured: A measured run of this deployment: vLLM, SGLang, guidellm or llama-bench JSON, genai-perf CSV, or a serving CSV; repeatable.
        providers: Only GPUs that this provider rents, at its prices; repeatable.
        regions: Only offers in this region, country (de) or area (eu); repeatable.
        currency: Also write the cost in this currency, with VAT: EUR at a dated reference rate, or EUR=1.08 at your own price in USD. That of regions by default.
        buyer: Country in which your company is established, such as de: its VAT and currency count.
        deducts_vat: You deduct VAT: it is not a cost.
        max_usd_per_hour: Most rent of all machines an hour.
        budget_usd_per_month: Most rent of all machines a month, such as 10k.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        power_calibration: What your own GPUs draw: a file of `capplan calibrate power -o FILE`.
        max_power_draw_w: Most mean power of all GPUs of an answer, without the host, such as 400W.
        file: models: a list of loads, each with its model.
        share_gpus: Also put several models on the same GPUs where that is cheaper (estimate).
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants from `capplan llm fit`; the shipped ones by default.

    Returns:
        The plans of all models of a file, and the fleets that serve them together.

    Raises:
        CapplanError: the file is refused, or a model or GPU is not known.
    """

def validate(
    *measured: Sequence[str | Path] | str | None,
    evidence: bool = ...,
    quality: str = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _ServingValidationShown:
    """Compare predicted with measured TTFT, TPOT, output tokens per second, power and energy.

    Rows that cannot be predicted are listed with the reason. A KV format that is not stated is taken as fp8 where weights are narrower than 16 bits, since published runs are mostly so. Evidence is judged by GPU, engine and version unless --by says otherwise. power_w is predicted at the measured rate and batch, power_w_end_to_end and joules_per_output_token from the deployment alone.

    Args:
        measured: Measured runs: CSV, plain or .gz.
        evidence: Measured runs that `capplan llm evidence update` has brought.
        quality: Qualities that are judged; rows without one count as B.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants from `capplan llm fit`; the shipped ones by default.

    Returns:
        Predictions of measured serving runs beside the measurements.

    Raises:
        CapplanError: a file cannot be read.
    """

def fit(
    *measured: Sequence[str | Path] | str | None,
    evidence: bool = ...,
    cross: bool = ...,
    specs: Sequence[str | Path] | str | None = ...,
) -> _FittedServingShown:
    """Learn efficiencies of kernels, overheads of engines and links from many measured runs.

    Args:
        measured: Measured runs: CSV, plain or .gz.
        evidence: From the runs that `capplan llm evidence update` has brought, and those named: your own constants of engines beside the shipped ones of kernels, where runs of left-out GPUs and versions are missed by less.
        cross: Also learn interval widths, leaving out GPUs, models, engines, ... in turn (minutes).
        specs: Own GPU specs, laid over the built-in ones.

    Returns:
        Constants that are learnt from measured runs, and how wrong they are on runs that were held out.

    Raises:
        CapplanError: a file cannot be read, or there are too few runs to learn from.
    """

def evidence_update(
    results: str | Path | None,
    *,
    gpu_layers: int | None = ...,
    n_cpu_moe: int = ...,
    fit: bool = ...,
    kv_offload_bytes: float | str = ...,
    weights: str | None = ...,
    kv: str | None = ...,
    tp: int = ...,
    pp: int = ...,
    ep: int = ...,
    dp: int = ...,
    engine: str | None = ...,
    engine_version: str | None = ...,
    model: str | None = ...,
    gpu: str | None = ...,
    check: bool = ...,
) -> _EvidenceTableShown:
    """Bring measured runs of served models: InferenceX's weekly database, or your own results.

    They are kept in your data folder, where `llm validate --evidence` and `llm fit --evidence` find them. Where a source fails, what it gave before is kept.

    Args:
        gpu_layers: llama.cpp: layers on the GPU, the others in host memory; all by default.
        n_cpu_moe: llama.cpp: layers whose experts are in host memory.
        fit: llama.cpp: leave in host memory what the GPUs cannot hold, experts first (its --fit).
        kv_offload_bytes: Host memory of a replica that keeps the cache of prefixes, such as 64GiB; read back over PCIe.
        weights: bf16, fp8, int8, awq, nvfp4, q4_k_m, ...; the checkpoint's by default.
        kv: Number format of the KV cache: bf16, fp8, q8_0, ...
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        ep: GPUs among which whole experts are distributed.
        dp: Ranks of attention data parallelism.
        engine: vllm, sglang, trtllm or llama.cpp; by default llama.cpp for GGUF files and formats, else vllm.
        engine_version: Version of the engine, such as 0.19; the newest by default.
        results: A dump of InferenceX (.zip, .tar.xz, its folder), or a file or folder of results of vLLM, SGLang, guidellm, genai-perf or llama-bench; else the newest dump is fetched.
        model: Model of results that do not name it.
        gpu: GPU of results that do not name it.
        check: Say what would be kept, and write nothing.
    """

def fit_memory(
    logs: str | Path,
    *,
    since: str = ...,
    base: str | Path | None = ...,
    data: str | None = ...,
) -> _FittedMemoryFileShown:
    """Learn vLLM's memory constants from its start-up logs and write a calibration file.

    Args:
        logs: What vLLM logged at start-up, plain or .gz.
        since: First version of vLLM that the logs are of.
        base: Calibration to start from instead of the shipped one.
        data: What the logs are, for the file's origin; the file's name by default.

    Returns:
        Memory constants that are learnt from vLLM's start-up logs, and the calibration file that holds them.

    Raises:
        CapplanError: the logs cannot be read or are too few.
    """

def train_memory(
    model: str,
    gpu: str,
    *,
    config: Sequence[str | Path] | str | None = ...,
    method: Method | str = ...,
    objective: Objective | str = ...,
    completion_len: int = ...,
    rollout_fraction: float = ...,
    rank: int = ...,
    targets: Sequence[str] | str = ...,
    base: BaseFormat | str | None = ...,
    precision: Compute | str = ...,
    states: States | str | None = ...,
    optimizer: OptimizerRecipe | str = ...,
    seq_len: int = ...,
    framework: str | None = ...,
    framework_version: str | None = ...,
    attention: AttentionImplementation | str | None = ...,
    fused_loss: bool = ...,
    compile: bool = ...,
    offload: Sequence[Offloaded | str] | str | None = ...,
    optimizer_in_backward: bool = ...,
    network_bytes_per_s: float | str | None = ...,
    gpu_count: int = ...,
    gpus_per_node: int | None = ...,
    tp: int = ...,
    pp: int = ...,
    vp: int = ...,
    cp: int = ...,
    ep: int = ...,
    shard: Shard | str | None = ...,
    shard_group: int | None = ...,
    keep_gathered: bool = ...,
    zero_bubble: bool = ...,
    micro_batch: int = ...,
    accumulate: int = ...,
    recompute: Recompute | str | None = ...,
    measured_step_s: float | str | None = ...,
    measured_peak_bytes: float | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _TrainingMemoryAnswerShown:
    """Divide the memory of a GPU that trains or fine-tunes a language model, and check that it fits.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf; or none, where config names it.
        config: A file of axolotl, TRL, LLaMA-Factory, unsloth, torchtune, torchtitan, MaxText, NeMo, DeepSpeed or accelerate, or a shell script that starts one of them or Megatron, whose settings are taken; repeatable. Options other than their default win.
        gpu: Exact id or alias of a GPU.
        method: Train all parameters, or adapters beside a frozen base.
        objective: What it is trained for: next tokens, rewards or preferences of pairs, or generated samples.
        completion_len: Tokens of a sequence that grpo and ppo generate; the rest is the prompt.
        rollout_fraction: Share of each GPU's memory that the engine keeps which generates for grpo and ppo; TRL's default. 0: it sleeps while the model is trained.
        rank: Rank of adapters.
        targets: Matrices with adapters: q, k, v, o, gate_up, down, head, attention, mlp; all linear ones by default.
        base: Format of a frozen base; bf16 for lora and nf4-dq for qlora by default.
        precision: Format of matrix products.
        states: master: 16-bit weights with an fp32 copy; autocast: fp32 weights; pure: all in 16 bits. The framework's by default.
        optimizer: Optimizer by the states that it keeps.
        seq_len: Tokens of a sequence.
        framework: torchtitan, megatron, nemo, torchtune, trl, axolotl, unsloth, deepspeed, ...; by default torchtitan, and trl for adapters.
        framework_version: Release of the framework, such as 0.6, where its defaults changed; the newest known by default.
        attention: flash is FlashAttention-2, tuned the vendor's; the framework's by default.
        fused_loss: The loss is computed by chunks, as Liger's kernels do.
        compile: Pointwise operators are fused by torch.compile.
        offload: Keep this in the host's memory; repeatable.
        optimizer_in_backward: Each parameter is updated in the backward pass, so that no gradients are kept.
        network_bytes_per_s: One GPU's network to other servers, one direction, such as '50 GB/s'.
        gpu_count: GPUs of the job.
        gpus_per_node: GPUs of one server; as many as its fast links join by default.
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        vp: Model chunks of a stage (interleaving).
        cp: GPUs that share a sequence.
        ep: GPUs among which whole experts are distributed.
        shard: What data-parallel ranks share; zero3 is FSDP. By default the framework's.
        shard_group: Ranks that share states (hybrid sharding); all by default.
        keep_gathered: FSDP keeps parameters after the forward pass (reshard_after_forward: false).
        zero_bubble: The pipeline splits the backward pass (ZB-H1).
        micro_batch: Sequences of one forward pass.
        accumulate: Micro-batches of one optimizer step.
        recompute: What the backward pass computes again; by default what the framework does, or the least that fits.
        measured_step_s: Time of one optimizer step that you measured of this job.
        measured_peak_bytes: Peak of reserved memory that you measured of this job.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants of training other than the shipped ones.

    Returns:
        How the memory of a GPU that trains is divided.

    Raises:
        CapplanError: a name is not known, or the job is not possible.
    """

def train_estimate(
    model: str,
    gpu: str,
    *,
    config: Sequence[str | Path] | str | None = ...,
    method: Method | str = ...,
    objective: Objective | str = ...,
    completion_len: int = ...,
    rollout_fraction: float = ...,
    rank: int = ...,
    targets: Sequence[str] | str = ...,
    base: BaseFormat | str | None = ...,
    precision: Compute | str = ...,
    states: States | str | None = ...,
    optimizer: OptimizerRecipe | str = ...,
    seq_len: int = ...,
    framework: str | None = ...,
    framework_version: str | None = ...,
    attention: AttentionImplementation | str | None = ...,
    fused_loss: bool = ...,
    compile: bool = ...,
    offload: Sequence[Offloaded | str] | str | None = ...,
    optimizer_in_backward: bool = ...,
    network_bytes_per_s: float | str | None = ...,
    gpu_count: int = ...,
    gpus_per_node: int | None = ...,
    tp: int = ...,
    pp: int = ...,
    vp: int = ...,
    cp: int = ...,
    ep: int = ...,
    shard: Shard | str | None = ...,
    shard_group: int | None = ...,
    keep_gathered: bool = ...,
    zero_bubble: bool = ...,
    micro_batch: int = ...,
    accumulate: int = ...,
    recompute: Recompute | str | None = ...,
    tokens: float | str | None = ...,
    samples: float | str | None = ...,
    mean_len: float | None = ...,
    lengths: Sequence[int] | str = ...,
    epochs: float = ...,
    padded: bool = ...,
    failure_hours: float = ...,
    storage_bytes_per_s: float | str | None = ...,
    async_checkpoints: bool = ...,
    restart_s: float | str = ...,
    spot_per_hour: float = ...,
    measured_step_s: float | str | None = ...,
    measured_peak_bytes: float | str | None = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _PricedTrainingShown:
    """Estimate how fast a language model trains, with intervals, and the days and money of a run.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf; or none, where config names it.
        config: A file of axolotl, TRL, LLaMA-Factory, unsloth, torchtune, torchtitan, MaxText, NeMo, DeepSpeed or accelerate, or a shell script that starts one of them or Megatron, whose settings are taken; repeatable. Options other than their default win.
        gpu: Exact id or alias of a GPU.
        method: Train all parameters, or adapters beside a frozen base.
        objective: What it is trained for: next tokens, rewards or preferences of pairs, or generated samples.
        completion_len: Tokens of a sequence that grpo and ppo generate; the rest is the prompt.
        rollout_fraction: Share of each GPU's memory that the engine keeps which generates for grpo and ppo; TRL's default. 0: it sleeps while the model is trained.
        rank: Rank of adapters.
        targets: Matrices with adapters: q, k, v, o, gate_up, down, head, attention, mlp; all linear ones by default.
        base: Format of a frozen base; bf16 for lora and nf4-dq for qlora by default.
        precision: Format of matrix products.
        states: master: 16-bit weights with an fp32 copy; autocast: fp32 weights; pure: all in 16 bits. The framework's by default.
        optimizer: Optimizer by the states that it keeps.
        seq_len: Tokens of a sequence.
        framework: torchtitan, megatron, nemo, torchtune, trl, axolotl, unsloth, deepspeed, ...; by default torchtitan, and trl for adapters.
        framework_version: Release of the framework, such as 0.6, where its defaults changed; the newest known by default.
        attention: flash is FlashAttention-2, tuned the vendor's; the framework's by default.
        fused_loss: The loss is computed by chunks, as Liger's kernels do.
        compile: Pointwise operators are fused by torch.compile.
        offload: Keep this in the host's memory; repeatable.
        optimizer_in_backward: Each parameter is updated in the backward pass, so that no gradients are kept.
        network_bytes_per_s: One GPU's network to other servers, one direction, such as '50 GB/s'.
        gpu_count: GPUs of the job.
        gpus_per_node: GPUs of one server; as many as its fast links join by default.
        tp: GPUs that share every matrix.
        pp: Pipeline stages.
        vp: Model chunks of a stage (interleaving).
        cp: GPUs that share a sequence.
        ep: GPUs among which whole experts are distributed.
        shard: What data-parallel ranks share; zero3 is FSDP. By default the framework's.
        shard_group: Ranks that share states (hybrid sharding); all by default.
        keep_gathered: FSDP keeps parameters after the forward pass (reshard_after_forward: false).
        zero_bubble: The pipeline splits the backward pass (ZB-H1).
        micro_batch: Sequences of one forward pass.
        accumulate: Micro-batches of one optimizer step.
        recompute: What the backward pass computes again; by default what the framework does, or the least that fits.
        tokens: Tokens of the data set, such as 2T or 10G.
        samples: Samples of the data set instead of tokens.
        mean_len: Mean tokens of a sample; whole sequences by default.
        lengths: Tokens of samples that are equally frequent, such as quantiles, instead of their mean: 60,350,1500.
        epochs: Passes over the data set.
        padded: Samples are padded to sequences, or to the longest of a batch with lengths, instead of packed.
        failure_hours: GPU hours between failures; Llama 3's report by default.
        storage_bytes_per_s: Bandwidth at which a checkpoint is written, of the whole job; 1 GB/s of each server by default.
        async_checkpoints: Checkpoints are written beside the job, also where the framework waits for them by default.
        restart_s: Time to start again after a failure.
        spot_per_hour: Interruptions of one spot server per hour.
        measured_step_s: Time of one optimizer step that you measured of this job.
        measured_peak_bytes: Peak of reserved memory that you measured of this job.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants of training other than the shipped ones.

    Returns:
        How fast a job trains, and what a run over its tokens takes.

    Raises:
        CapplanError: a name is not known, or the job is not possible.
    """

def train_plan(
    model: str,
    *,
    config: Sequence[str | Path] | str | None = ...,
    method: Method | str = ...,
    objective: Objective | str = ...,
    completion_len: int = ...,
    rollout_fraction: float = ...,
    rank: int = ...,
    targets: Sequence[str] | str = ...,
    base: BaseFormat | str | None = ...,
    precision: Compute | str = ...,
    states: States | str | None = ...,
    optimizer: OptimizerRecipe | str = ...,
    seq_len: int = ...,
    framework: str | None = ...,
    framework_version: str | None = ...,
    attention: AttentionImplementation | str | None = ...,
    fused_loss: bool = ...,
    compile: bool = ...,
    offload: Sequence[Offloaded | str] | str | None = ...,
    optimizer_in_backward: bool = ...,
    network_bytes_per_s: float | str | None = ...,
    tokens: float | str | None = ...,
    samples: float | str | None = ...,
    mean_len: float | None = ...,
    lengths: Sequence[int] | str = ...,
    epochs: float = ...,
    padded: bool = ...,
    failure_hours: float = ...,
    storage_bytes_per_s: float | str | None = ...,
    async_checkpoints: bool = ...,
    restart_s: float | str = ...,
    spot_per_hour: float = ...,
    gpus: str | Gpus | Sequence[str] | None = ...,
    counts: Sequence[int] | int | None = ...,
    max_gpus: int = ...,
    global_batch: int | None = ...,
    deadline_s: float | str | None = ...,
    budget_usd: float | str | None = ...,
    certainty_fraction: float | str = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    currency: str | None = ...,
    buyer: str | None = ...,
    deducts_vat: bool = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _TrainingPlanShown:
    """Search GPUs, counts, layouts, micro-batches and recomputation for a training run: the cheapest, the fastest, and the one on fewest GPUs.

    Args:
        model: A name of `capplan llm models`, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:FOLDER, FILE.gguf; or none, where config names it.
        config: A file of axolotl, TRL, LLaMA-Factory, unsloth, torchtune, torchtitan, MaxText, NeMo, DeepSpeed or accelerate, or a shell script that starts one of them or Megatron, whose settings are taken; repeatable. Options other than their default win.
        method: Train all parameters, or adapters beside a frozen base.
        objective: What it is trained for: next tokens, rewards or preferences of pairs, or generated samples.
        completion_len: Tokens of a sequence that grpo and ppo generate; the rest is the prompt.
        rollout_fraction: Share of each GPU's memory that the engine keeps which generates for grpo and ppo; TRL's default. 0: it sleeps while the model is trained.
        rank: Rank of adapters.
        targets: Matrices with adapters: q, k, v, o, gate_up, down, head, attention, mlp; all linear ones by default.
        base: Format of a frozen base; bf16 for lora and nf4-dq for qlora by default.
        precision: Format of matrix products.
        states: master: 16-bit weights with an fp32 copy; autocast: fp32 weights; pure: all in 16 bits. The framework's by default.
        optimizer: Optimizer by the states that it keeps.
        seq_len: Tokens of a sequence.
        framework: torchtitan, megatron, nemo, torchtune, trl, axolotl, unsloth, deepspeed, ...; by default torchtitan, and trl for adapters.
        framework_version: Release of the framework, such as 0.6, where its defaults changed; the newest known by default.
        attention: flash is FlashAttention-2, tuned the vendor's; the framework's by default.
        fused_loss: The loss is computed by chunks, as Liger's kernels do.
        compile: Pointwise operators are fused by torch.compile.
        offload: Keep this in the host's memory; repeatable.
        optimizer_in_backward: Each parameter is updated in the backward pass, so that no gradients are kept.
        network_bytes_per_s: One GPU's network to other servers, one direction, such as '50 GB/s'.
        tokens: Tokens of the data set, such as 2T or 10G.
        samples: Samples of the data set instead of tokens.
        mean_len: Mean tokens of a sample; whole sequences by default.
        lengths: Tokens of samples that are equally frequent, such as quantiles, instead of their mean: 60,350,1500.
        epochs: Passes over the data set.
        padded: Samples are padded to sequences, or to the longest of a batch with lengths, instead of packed.
        failure_hours: GPU hours between failures; Llama 3's report by default.
        storage_bytes_per_s: Bandwidth at which a checkpoint is written, of the whole job; 1 GB/s of each server by default.
        async_checkpoints: Checkpoints are written beside the job, also where the framework waits for them by default.
        restart_s: Time to start again after a failure.
        spot_per_hour: Interruptions of one spot server per hour.
        gpus: Only this GPU; repeatable. All rented data-centre GPUs by default.
        counts: GPUs of a job; repeatable. By default powers of two up to max_gpus, and what a deadline_s needs.
        max_gpus: Most GPUs of a job.
        global_batch: Sequences of an optimizer step; by default 4 M tokens, give or take a tenth, and 64 sequences for adapters.
        deadline_s: Longest run, such as 14d.
        budget_usd: Most money, such as 250k.
        certainty_fraction: Probability with which the deadline and the budget are kept, as the intervals say.
        providers: Only GPUs that this provider rents, at its prices; repeatable.
        regions: Only offers in this region, country (de) or area (eu); repeatable.
        currency: Also write the cost in this currency, with VAT: EUR at a dated reference rate, or EUR=1.08 at your own price in USD. That of regions by default.
        buyer: Country in which your company is established, such as de: its VAT and currency count.
        deducts_vat: You deduct VAT: it is not a cost.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants of training other than the shipped ones.

    Returns:
        The runs that keep limits on time and money: the cheapest, the fastest, the one on fewest GPUs.

    Raises:
        CapplanError: a name is not known.
    """

def train_validate(
    *measured: Sequence[str | Path] | str | None,
    quality: str = ...,
    specs: Sequence[str | Path] | str | None = ...,
    calibration: str | Path | None = ...,
) -> _TrainingValidationShown:
    """Compare predicted with measured speed and memory of training runs.

    Where a row does not state what it computes again, the least that fits is assumed. Rows that cannot be predicted are listed with the reason.

    Args:
        measured: Measured runs: CSV, plain or .gz.
        quality: Qualities that are judged; rows without one count as B.
        specs: Own GPU specs, laid over the built-in ones.
        calibration: Constants of training other than the shipped ones.

    Returns:
        Predictions of measured training runs beside the measurements.

    Raises:
        CapplanError: a file cannot be read.
    """
