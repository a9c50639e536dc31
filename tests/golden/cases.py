"""The cases: one line each, by the name of the file in expected/ that holds what comes out."""

from collections.abc import Callable, Mapping

from tests.golden import refusals, reports, service
from tests.golden.descriptions import DESCRIPTIONS
from tests.golden.world import transcript, world

NET = "net.trace.json.gz"
TRAINING = "net-training.trace.json.gz"
TEXT = "text.trace.json.gz"
GPUS = "--gpu t4,l4,h100-sxm5-80gb,rtx-4090"
FORMATS = ("", " --format json", " --format csv", " --format md")
"""What `{formats}` at the end of a command stands for."""

SHOWN: Mapping[str, str] = {
    "gpus": "gpus --vendor NVIDIA --arch Hopper",
    "gpus-show": "gpus show t4",
    "gpus-compare": "gpus compare t4 l4 h100-pcie-80gb",
    "prices": "prices --gpu l4",
    "plan": f"plan {NET} --batch 32 {GPUS}",
    "plan-all": f"plan {NET} --batch 1,32 {GPUS} --all --color always",
    "compare": f"compare {NET} {TEXT} --gpu l4 --batch 8",
    "estimate": f"estimate {NET} --gpu l4 --batch 1..64",
    "memory": f"memory {NET} --gpu l4 --batch 8",
    "analyze": f"analyze {NET}",
    "llm-memory": "llm memory qwen3-32b --gpu h100-sxm5-80gb --tp 2",
    "llm-estimate": "llm estimate qwen3-32b --gpu h100-sxm5-80gb --tp 2",
    "llm-plan": "llm plan qwen3-8b --gpu l40s --tp 1 --rate 5",
    "llm-train": "llm train plan llama-3.1-8b-instruct --gpu h100-sxm5-80gb --tokens 1B --gpus 8",
}
"""Commands by name that are shown on terminals of 80 and of 100 columns."""

COMMANDS: Mapping[str, str] = {
    "gpus/list": "gpus --where 'memory >= 80 GiB' {formats}",
    "gpus/all": "gpus",
    "gpus/ids": "gpus --cpus -q",
    "gpus/columns": "gpus --vendor NVIDIA --arch Hopper --columns all --sort -bf16 {formats}",
    "gpus/show": "gpus show l4 {formats}",
    "gpus/compare": "gpus compare l4 a10 t4 {formats}",
    "gpus/validate": "gpus validate specs",
    "gpus/new": "gpus new --from rtx-4090",
    "gpus/schema": "gpus schema",
    "gpus/own": "gpus show next-card --specs specs {formats}",
    "prices/gpu": "prices --gpu l4 {formats}",
    "prices/compare": "prices --gpu h100-sxm5-80gb --compare provider {formats}",
    "prices/own": "prices --specs specs --gpu h100-sxm5-80gb --history {formats}",
    "plan/short": f"plan {NET} --batch 32",
    "plan/short-formats": f"plan {NET} --batch 32 --where 'memory >= 140 GiB' {{formats}}",
    "plan/all": f"plan {NET} --batch 32 --all",
    "plan/batches": f"plan {NET} --batch 1..64 {GPUS} --all --energy {{formats}}",
    "plan/auto": f"plan {TEXT} {GPUS} --precision fp16 --max-latency 5ms --all {{formats}}",
    "plan/max": f"plan {NET} --batch max {GPUS} --all",
    "plan/models": f"plan {NET} {TEXT} {GPUS} --batch 8 {{formats}}",
    "plan/training": f"plan {TRAINING} --train --optimizer momentum --precision amp-fp16 --batch 32 {GPUS} --all {{formats}}",
    "plan/several-gpus": f"plan {TRAINING} --train --optimizer momentum --gpus 4 --sharding zero2 --batch 32 {GPUS} {{formats}}",
    "plan/compile": f"plan {NET} --framework compile --precision fp16 --batch 8 {GPUS} --all {{formats}}",
    "plan/tensorrt": f"plan {NET} --framework tensorrt --precision fp16 --batch 8 {GPUS} --all {{formats}}",
    "plan/onnxruntime": f"plan {NET} --framework onnxruntime --batch 8 {GPUS} --all",
    "plan/rate": f"plan {NET} --rate 5000/s --batch 1..64 {GPUS} --currency EUR {{formats}}",
    "plan/job": f"plan {NET} --samples 1000000 --epochs 3 --batch 32 {GPUS} --provider aws {{formats}}",
    "plan/cpus": f"plan {NET} --with-cpus --gpu l4,epyc-9654 --batch 8 --all {{formats}}",
    "plan/power": f"plan {NET} --gpu h100-sxm5-80gb,l4 --batch 64 --power-limit 300W --energy --all {{formats}}",
    "plan/nothing-fits": f"plan {NET} --gpu t4,l4 --batch 100000 {{formats}}",
    "compare/models": f"compare {NET} {TEXT} --gpu l4,t4 --batch 8 {{formats}}",
    "compare/precisions": f"compare {NET} --gpu l4 --batch 1,32 --precision fp32,fp16,amp-fp16 --framework eager,compile --sort cost {{formats}}",
    "estimate/gpu": f"estimate {NET} --gpu l4 --batch 1..64 {{formats}}",
    "estimate/gpus": f"estimate {NET} --gpu l4,t4 --batch 32 --energy {{formats}}",
    "estimate/explain": f"estimate {NET} --gpu l4 --batch 1..256 --explain --top 5",
    "estimate/frameworks": f"estimate {NET} --gpu l4 --batch 8 --compare-frameworks {{formats}}",
    "memory/gpu": f"memory {NET} --batch 32 --gpu l4,t4 {{formats}}",
    "memory/advice": f"memory {TRAINING} --train --optimizer momentum --batch 64 --gpu rtx-4090 --advice --rule-of-thumb {{formats}}",
    "memory/sharding": f"memory {TRAINING} --train --optimizer momentum --batch 8 --gpus 8 {{formats}}",
    "analyze/net": f"analyze {NET} --batch 4 {{formats}}",
    "analyze/training": f"analyze {TRAINING} --train --optimizer momentum {{formats}}",
    "llm/models": "llm models {formats}",
    "llm/support": "llm support minimax-m2.5 --gpu a100-sxm4-80gb {formats}",
    "llm/memory": "llm memory qwen3-32b --gpu h100-sxm5-80gb --tp 2 --max-len 16384 {formats}",
    "llm/memory-llama-cpp": "llm memory qwen3-32b --gpu rtx-4090 --engine llama.cpp --weights q4_k_m --max-len 16384 {formats}",
    "llm/estimate": "llm estimate llama-3.1-8b-instruct --gpu l40s --weights fp8 -c 1..32 --energy {formats}",
    "llm/estimate-explain": "llm estimate qwen3-32b --gpu h100-sxm5-80gb --tp 2 -c 32 --explain",
    "llm/plan": "llm plan qwen3-8b --gpu h100-sxm5-80gb --gpu l40s --rate 20 --max-ttft 1s --max-tpot 40ms --tp 1 {formats}",
    "llm/plan-all": "llm plan qwen3-8b --gpu h100-sxm5-80gb --gpu l40s --rate 20 --max-ttft 1s --max-tpot 40ms --all --launch --energy",
    "llm/plan-job": "llm plan qwen3-8b --gpu l40s --tp 1 --prompts 100000 --within 8h --api-price 0.6,2.4 {formats}",
    "llm/plan-none": "llm plan qwen3-8b --gpu l40s --tp 1 --rate 5 --max-tpot 1us {formats}",
    "llm/plan-ways": "llm plan llama-3.1-8b-instruct --gpu h100-sxm5-80gb --tp 1 --requests-per-day 5000 --compare-ways --storage 2GB/s {formats}",
    "llm/scale": "llm scale qwen3-8b --gpu h100-sxm5-80gb --requests-per-day 20000 --max-ttft 5s --storage 2GB/s {formats}",
    "llm/start": "llm start qwen3-32b --gpu h100-sxm5-80gb --tp 2 --storage 2GB/s --provision 90s {formats}",
    "llm/simulate": "llm simulate qwen3-8b --gpu h100-sxm5-80gb --rate 1,4 --max-ttft 1s --max-tpot 50ms {formats}",
    "llm/train-memory": "llm train memory llama-3.1-8b-instruct --gpu h100-sxm5-80gb --method lora {formats}",
    "llm/train-estimate": "llm train estimate llama-3.1-8b-instruct --gpu h100-sxm5-80gb --gpus 64 --tokens 100G {formats}",
    "llm/train-plan": "llm train plan llama-3.1-8b-instruct --gpu a100-sxm4-80gb --gpu h100-sxm5-80gb --method lora --samples 50k --seq-len 2048 --gpus 1 --gpus 8 {formats}",
    "llm/fleet": "llm fleet fleet.yaml {formats}",
    "llm/validate": "llm validate serving.csv {formats}",
    "llm/train-validate": "llm train validate runs.csv {formats}",
    "plan/pipeline": "plan tiny.pipeline.yaml --gpu l4,t4 --batch 1,4 {formats} ; plan tiny.pipeline.yaml --gpu l4,t4 --batch 4 --all --energy",
    "plan/pipeline-set": "plan tiny.pipeline.yaml --gpu l4 --batch 2 --set steps=10 --part denoiser.precision=fp16 --offload model",
    "estimate/pipeline": "estimate tiny.pipeline.yaml --gpu l4 --batch 1,4 {formats}",
    "memory/pipeline": "memory tiny.pipeline.yaml --gpu l4 --batch 4 {formats}",
    "measure/export": "measure --export before.jsonl {formats}",
    "measure/compare": "measure --compare before.jsonl after.jsonl {formats}",
    "validate/rows": "validate measured.csv {formats} ; validate measured.csv --by gpu,batch --worst 1",
    "prices/import": "prices import quotes.csv -o mine ; prices --specs mine --provider our-supplier {formats} ; gpus validate mine",
    "sweep/net": "sweep sweep.yaml -o out --workers 1 --progress none ; sweep sweep.yaml -o out --workers 1 --progress none {formats} ; query out cheapest {formats} ; query out fits --where \"gpu = 't4'\" ; query out 'select gpu, batch, latency_s from sweep order by 1, 2, 3 limit 3' {formats} ; query out regressions --against out ; sweep sweep.yaml -o out3 --workers 1 --dry-run {formats}",
    "sweep/serving": "sweep serving-sweep.yaml -o out --workers 1 --progress none ; query out 'select * from sweep order by gpu, batch' --json ; query out quickest",
    "trace/anonymous": "trace text.trace.json.gz --anonymize",
    "saved/check": "check resnet50.plan.json --gpu l4 --batch 32 --utilization 0.8 --min-throughput 500 {formats}",
    "saved/check-broken": "check resnet50.plan.json --gpu l4 --gpu t4 --batch 8 --max-latency 1ms --sure {formats}",
    "saved/diff": "diff resnet50.plan.json bert.plan.json {formats}",
    "settings/config": "config {formats}",
    "settings/cache": "cache",

    "schema/names": "schema",
    **{f"terminal/{name}": f"80> {command} ; 100> {command}" for name, command in SHOWN.items()},
}  # fmt: skip
"""Commands by name; `{formats}` runs one in each format, a `;` separates commands that run in one folder."""


def _commands(lines: str) -> str:
    commands = [
        line.removesuffix("{formats}").strip() + spelling
        for line in lines.split(" ; ")
        for spelling in (FORMATS if line.endswith("{formats}") else ("",))
    ]
    with world():
        return "\n".join(map(transcript, commands))


def _making(lines: str) -> Callable[[], str]:
    return lambda: _commands(lines)


CASES: Mapping[str, Callable[[], str]] = {
    **{name: _making(lines) for name, lines in COMMANDS.items()},
    **DESCRIPTIONS,
    **reports.CASES,
    **service.CASES,
    **refusals.CASES,
}
"""What makes each output, by its name."""
