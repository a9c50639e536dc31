"""Launch commands: what each engine's documentation names its options."""

import json
import shlex
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from capplan.core.engine_names import Engine
from capplan.core.gpus.machines import HostArchitecture
from capplan.llm.core.architecture import DraftHead
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.launch import Launch, Setting, launch
from capplan.llm.core.fleet.launch_files import launch_files
from capplan.llm.core.serving.asked import Drafter, DrafterKind, Speculation
from capplan.llm.core.sharding import HostOffload, Sharding
from capplan.llm.core.weights import Adapters
from capplan.llm.read.framework_forms import ENGINE_FORMS
from capplan.specs.shipped import LAUNCH_FORMS
from tests.llm.core.fleet.fits import fit
from tests.seen import at_least

FLAGS = yaml.safe_load(Path(__file__).with_name("engine_flags.yaml").read_text(encoding="utf-8"))


def made(engine: Engine, **changes: Any) -> Launch:
    given: dict[str, Any] = {
        "engine": engine,
        "model": "org/model",
        "sharding": Sharding(tensor=4),
        "weights": "bf16",
        "is_own_format": True,
        "kv": "bf16",
        "max_len": 4096,
        "max_sequences": 64,
        "token_budget": 8192,
        "memory_fraction": 0.9,
    }
    return launch(Setting(**{**given, **changes}), ENGINE_FORMS.load())


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (Engine.VLLM, "vllm serve org/model --tensor-parallel-size 4 --max-model-len 4096 --max-num-seqs 64"),
        (
            Engine.SGLANG,
            "python -m sglang.launch_server --model-path org/model --tp-size 4 --context-length 4096",
        ),
        (Engine.TRTLLM, "trtllm-serve org/model --tp_size 4 --max_seq_len 4096 --max_batch_size 64"),
        (Engine.LLAMACPP, "llama-server -m org/model -ngl 999 --split-mode tensor -np 64 -c 262144"),
    ],
)
def test_the_command_of_each_engine(engine: Engine, words: str) -> None:
    assert made(engine).command.startswith(words)


@pytest.mark.parametrize("engine", list(Engine))
def test_every_option_says_why_it_stands_there(engine: Engine) -> None:
    assert all(len(option.why.split()) > 2 for option in at_least(3, made(engine).options))


def test_experts_and_attention_ranks_by_engine() -> None:
    sharding = Sharding(tensor=2, data=4, expert=8)
    assert "--data-parallel-size 4" in made(Engine.VLLM, sharding=sharding).command
    assert "--enable-expert-parallel" in made(Engine.VLLM, sharding=sharding).command
    # SGLang and TensorRT-LLM count the ranks among the tensor-parallel GPUs.
    assert "--tp-size 8 --dp-size 4 --enable-dp-attention --ep-size 8" in made(Engine.SGLANG, sharding=sharding).command
    trtllm = made(Engine.TRTLLM, sharding=sharding)
    assert "--tp_size 8 --ep_size 8" in trtllm.command
    assert "enable_attention_dp: true" in trtllm.files[0][1]


def test_a_checkpoint_in_16_bits_is_converted_to_fp8_only_where_asked_for() -> None:
    converted = made(Engine.VLLM, weights="fp8", is_own_format=False)
    assert "--quantization fp8" in converted.command
    assert not converted.notes
    assert "--quantization" not in made(Engine.VLLM, weights="fp8", is_own_format=True).command
    assert "not stored in awq" in made(Engine.VLLM, weights="awq", is_own_format=False).notes[0]


def test_a_narrow_cache_prefixes_and_drafts_are_set() -> None:
    made_of = made(
        Engine.VLLM, kv="fp8", prefix_fraction=0.5, speculation=Speculation(drafts=3, acceptance=0.7)
    ).command
    assert "--kv-cache-dtype fp8" in made_of
    assert "--enable-prefix-caching" in made_of
    assert '"num_speculative_tokens": 3' in made_of


def test_sglang_bounds_the_prompts_of_a_step_by_its_chunk() -> None:
    # SGLang 0.5 divides --chunked-prefill-size among the ranks; --max-prefill-tokens is 16,384 by default.
    sharding = Sharding(data=4, expert=4)
    command = made(Engine.SGLANG, sharding=sharding, token_budget=2048).command
    assert "--chunked-prefill-size 8192" in command
    assert "--max-prefill-tokens" not in command
    assert "--max-prefill-tokens 32768" in made(Engine.SGLANG, token_budget=32768).command


def test_sglang_drafts_a_chain_with_an_algorithm() -> None:
    # SGLang 0.5.23 drafts nothing without an algorithm; a chain of 3 steps is verified with 4 tokens.
    command = made(Engine.SGLANG, speculation=Speculation(drafts=3, acceptance=0.7)).command
    assert "--speculative-algorithm EAGLE --speculative-draft-model-path DRAFT --speculative-num-steps 3" in command
    assert "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4" in command


@pytest.mark.parametrize("engine", [Engine.TRTLLM, Engine.LLAMACPP])
def test_a_command_without_drafts_says_so(engine: Engine) -> None:
    speculation = Speculation(drafts=3, acceptance=0.7)
    assert any("drafts nothing" in note for note in made(engine, speculation=speculation).notes)


def test_ranks_of_data_parallelism_share_the_sequences() -> None:
    # vLLM's ranks schedule for themselves; SGLang's number is that of all ranks.
    sharding = Sharding(data=4, expert=4)
    assert "--max-num-seqs 16" in made(Engine.VLLM, sharding=sharding).command
    assert "--max_batch_size 16" in made(Engine.TRTLLM, sharding=sharding).command
    assert "--max-running-requests 64" in made(Engine.SGLANG, sharding=sharding).command


def test_vllm_takes_the_ranks_of_adapters_in_steps() -> None:
    assert "--max-lora-rank 16 " in made(Engine.VLLM, adapters=Adapters(count=1, rank=12)).command


def test_llamacpp_divides_its_context_between_the_slots() -> None:
    # 1,280 tokens are 80 blocks of 16; 8 slots of them are 10,240 tokens.
    assert "-c 10240" in made(Engine.LLAMACPP, max_len=1280, max_sequences=8, sharding=Sharding()).command
    # Slots that share the cache need what is planned for all of them, and at least one whole sequence.
    shared = made(Engine.LLAMACPP, max_len=8192, planned_len=1280, max_sequences=8, sharding=Sharding()).command
    assert "-c 10240 --kv-unified" in shared
    assert "-c 8192" in made(Engine.LLAMACPP, max_len=8192, planned_len=1280, max_sequences=2).command


def test_adapters_are_set_in_every_engine_that_serves_them() -> None:
    adapters = Adapters(count=4, rank=16)
    assert "--enable-lora --max-loras 4 --max-lora-rank 16" in made(Engine.VLLM, adapters=adapters).command
    # without paths SGLang 0.5.5 asserts that both the rank and the modules are stated
    sglang = made(Engine.SGLANG, adapters=adapters).command
    assert "--enable-lora --max-loras-per-batch 4 --max-lora-rank 16 --lora-target-modules all" in sglang
    assert "max_loras: 4" in made(Engine.TRTLLM, adapters=adapters).files[0][1]


@pytest.mark.parametrize("kv", ["q5_0", "q4_0"])
def test_every_narrow_cache_of_llamacpp_is_set(kv: str) -> None:
    assert f"-ctk {kv} -ctv {kv}" in made(Engine.LLAMACPP, kv=kv, sharding=Sharding()).command


def test_tensorrt_llm_stores_the_cache_in_the_planned_format() -> None:
    assert "dtype: nvfp4" in made(Engine.TRTLLM, kv="nvfp4").files[0][1]
    assert "dtype: fp8" in made(Engine.TRTLLM, kv="fp8_e4m3").files[0][1]


def every_setting(engine: Engine) -> Iterator[Launch]:
    """Yield launches that between them use every option of an engine."""
    ways = [Sharding(), Sharding(tensor=8), Sharding(tensor=2, pipeline=4), Sharding(data=8, expert=8)]
    wide = [(Sharding(tensor=8, pipeline=2), 2), (Sharding(data=16, expert=16), 2), (Sharding(tensor=16), 2)]
    several = [] if engine is Engine.LLAMACPP else wide
    for sharding, servers in (*((way, 1) for way in ways), *several):
        drafted = [None, *(Speculation(drafts=3, acceptance=0.7, drafter=Drafter(kind=kind)) for kind in DrafterKind)]
        for weights, kv, speculation, extra in product(("bf16", "fp8"), ("bf16", "fp8"), drafted, (False, True)):
            yield made(
                engine,
                sharding=sharding,
                servers=servers,
                weights=weights,
                is_own_format=False,
                kv=kv,
                speculation=speculation,
                adapters=Adapters(count=2, rank=16) if extra and engine is not Engine.LLAMACPP else None,
                own_code=extra,
                has_own_head=extra,
                is_half=extra,
                prefix_fraction=0.5 if extra else 0.0,
                token_budget=32768 if extra else 8192,
            )


def assert_taken(takes: str | list[Any], value: str) -> None:
    """Assert that a value is of the kind that an option takes."""
    if takes == "number":
        assert int(value) >= 0
    elif takes == "share":
        assert 0 < float(value) <= 1
    elif takes == "json":
        assert isinstance(json.loads(value), dict)
    elif isinstance(takes, list):
        assert value in [{True: "on", False: "off"}.get(word, str(word)) for word in takes]
    else:
        assert takes == "word"


@pytest.mark.parametrize("engine", list(Engine))
def test_every_command_is_one_that_the_engines_parser_takes(engine: Engine) -> None:
    # The options and what they take are those of the release that the table names.
    options, used = FLAGS[engine.value]["options"], set()
    for made_of in at_least(30, every_setting(engine)):
        for command in made_of.commands:
            words = shlex.split(command)
            words = words[words.index("org/model") + 1 :]
            while words:
                option, *words = words
                assert option in options, f"{option} is no option of {engine.value}: {command}"
                used.add(option)
                if options[option] != "flag":
                    assert_taken(options[option], words.pop(0))
    # `-m` and `--model-path` stand before the model; TensorRT-LLM has its adapters in a file.
    assert used >= set(options) - {"-m", "--model-path", "--n-cpu-moe", "-ngl", "--fit"}


def test_vllm_starts_a_pipeline_on_two_servers() -> None:
    # vLLM, docs/serving/parallelism_scaling.md: --nnodes, --node-rank and --master-addr, workers --headless.
    made_of = made(Engine.VLLM, sharding=Sharding(tensor=8, pipeline=2), servers=2)
    first, second = made_of.commands
    assert first.endswith("--nnodes 2 --node-rank 0 --master-addr HEAD")
    assert second == first.replace("--node-rank 0", "--node-rank 1") + " --headless"


def test_vllm_divides_ranks_of_data_parallelism_among_servers() -> None:
    # vLLM, data parallel deployment: 16 ranks on two servers, the second begins with rank 8.
    first, second = made(Engine.VLLM, sharding=Sharding(data=16, expert=16), servers=2).commands
    assert "--data-parallel-size 16" in first
    assert first.endswith("--data-parallel-size-local 8 --data-parallel-address HEAD --data-parallel-rpc-port 13345")
    assert "--data-parallel-size-local 8 --data-parallel-start-rank 8 " in second
    assert second.endswith("--headless")


def test_sglang_and_tensorrt_llm_on_two_servers() -> None:
    sharding = Sharding(tensor=16)
    first, second = made(Engine.SGLANG, sharding=sharding, servers=2).commands
    assert first.endswith("--nnodes 2 --node-rank 0 --dist-init-addr HEAD:20000")
    assert second.endswith("--nnodes 2 --node-rank 1 --dist-init-addr HEAD:20000")
    (only,) = made(Engine.TRTLLM, sharding=sharding, servers=2).commands
    assert only.startswith("mpirun -n 16 -H SERVER0:8,SERVER1:8 trtllm-llmapi-launch trtllm-serve org/model")
    assert "--gpus_per_node 8" in only


def manifest(planned: DeploymentFit, made_of: Launch) -> str | None:
    return launch_files(planned, made_of, model="some", forms=LAUNCH_FORMS.load()).get("kubernetes.yaml")


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_a_manifest_of_several_servers_groups_them(engine: Engine) -> None:
    made_of = made(engine, sharding=Sharding(tensor=8, pipeline=2), servers=2)
    text = manifest(fit(sharding=Sharding(tensor=8, pipeline=2), engine=engine.value), made_of)
    assert text is not None
    group, service, budget = yaml.safe_load_all(text)
    assert group["kind"] == "LeaderWorkerSet"
    template = group["spec"]["leaderWorkerTemplate"]
    assert (group["spec"]["replicas"], template["size"]) == (4, 2)
    leader, worker = (template[part]["spec"]["containers"][0] for part in ("leaderTemplate", "workerTemplate"))
    assert leader["resources"]["limits"] == worker["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert any("$(LWS_LEADER_ADDRESS)" in word for word in leader["args"])
    assert '--node-rank "$LWS_WORKER_INDEX"' in worker["args"][0]
    assert (
        service["spec"]["selector"]
        == budget["spec"]["selector"]["matchLabels"]
        == {"app": f"some-{engine}", "role": "leader"}
    )


def test_ranks_under_mpi_have_no_manifest() -> None:
    made_of = made(Engine.TRTLLM, sharding=Sharding(tensor=16), servers=2)
    assert manifest(fit(sharding=Sharding(tensor=16)), made_of) is None


def test_arm_hosts_and_own_code_are_said() -> None:
    made_of = made(Engine.VLLM, host=HostArchitecture.ARM, own_code=True)
    assert any("arm64" in note for note in made_of.notes)
    assert any("trust" in note for note in made_of.notes)
    assert "--trust-remote-code" in made_of.command
    text = manifest(fit(sharding=Sharding(tensor=4)), made_of)
    assert text is not None
    (deployment, *_) = yaml.safe_load_all(text)
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/arch": "arm64"}


def test_a_checkpoints_own_head_and_ngrams_need_no_draft_model() -> None:
    # vLLM 0.23: {"method": "mtp"} and {"method": "ngram", "prompt_lookup_max": n}; SGLang: NEXTN and NGRAM.
    head = Speculation(drafts=3, acceptance=0.7)
    ngram = Speculation(drafts=3, acceptance=0.7, drafter=Drafter.named("ngram"))
    own = made(Engine.VLLM, speculation=head, has_own_head=True)
    assert '{"method": "mtp", "num_speculative_tokens": 3}' in own.command
    assert not own.notes
    looked_up = made(Engine.VLLM, speculation=ngram).command
    assert '{"method": "ngram", "prompt_lookup_max": 3, "num_speculative_tokens": 3}' in looked_up
    assert (
        "--speculative-algorithm NEXTN --speculative-num-steps 3"
        in made(Engine.SGLANG, speculation=head, has_own_head=True).command
    )
    assert (
        "--speculative-algorithm NGRAM --speculative-num-draft-tokens 4"
        in made(Engine.SGLANG, speculation=ngram).command
    )


@pytest.mark.parametrize(
    ("kind", "head", "vllm", "sglang"),
    [
        ("qwen3-0.6b", None, "draft_model", "STANDALONE"),
        ("a head", DraftHead(fused=3, rows=32_000), "eagle3", "EAGLE3"),
        ("a block", DraftHead(fused=5, is_parallel=True), "dflash", "DFLASH"),
    ],
)
def test_a_drafter_that_is_named_is_in_the_command(kind: str, head: DraftHead | None, vllm: str, sglang: str) -> None:
    # vLLM's SpeculativeMethod (config/speculative.py at 002e77c) and SGLang's page on speculative decoding.
    speculation = Speculation(drafts=3, acceptance=0.7, drafter=Drafter.named(kind))
    named = {"speculation": speculation, "draft_checkpoint": "ORG/DRAFTER", "draft_head": head}
    started = made(Engine.VLLM, **named)
    assert f'{{"method": "{vllm}", "model": "ORG/DRAFTER", "num_speculative_tokens": 3}}' in started.command
    assert not any("DRAFT." in note for note in started.notes)
    algorithm = f"--speculative-algorithm {sglang} --speculative-draft-model-path ORG/DRAFTER"
    assert algorithm in made(Engine.SGLANG, **named).command


def test_an_eagle3_head_without_a_name_is_asked_for() -> None:
    speculation = Speculation(drafts=3, acceptance=0.7, drafter=Drafter.named("eagle3"))
    started = made(Engine.VLLM, speculation=speculation, has_own_head=True)
    assert '{"method": "eagle3", "model": "DRAFT", "num_speculative_tokens": 3}' in started.command
    assert any("in place of DRAFT" in note for note in started.notes)


def test_llama_cpp_divides_among_several_gpus_and_the_host_by_itself() -> None:
    # docs/multi-gpu.md at 5815cb8: --fit sets what is not stated, so that -ngl and --n-cpu-moe must not be
    sharding = Sharding(pipeline=2, offload=HostOffload(expert_layers=3))
    command = made(Engine.LLAMACPP, sharding=sharding).command
    assert "--fit on --split-mode layer" in command
    assert "-ngl" not in command
    assert "--n-cpu-moe" not in command
