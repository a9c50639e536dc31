"""Refusals: contradictions and bad values at the command line, in Python and in files, each with its sentence."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import capplan
import capplan.llm
from capplan.errors import CapplanError
from tests.golden.world import masked, run, world

NET = "net.trace.json.gz"
TYPED: Mapping[str, str] = {
    "plan": f"""
        plan
        plan {NET} --gpu h101
        plan {NET} --gpu ''
        plan {NET} --gpu l4 --batch 8..4
        plan {NET} --gpu l4 --batch 0
        plan {NET} --gpu l4 --batch many
        plan {NET} --gpu l4 --precision fp17
        plan {NET} --gpu l4 --precision bf16
        plan {NET} --gpu l4 --framework torchscript
        plan {NET} --gpu l4 --layout chwn
        plan {NET} --gpu l4 --layout nhwc
        plan {NET} --gpu l4 --train
        plan {NET} --gpu l4 --train --optimizer lion
        plan {NET} --gpu l4 --accumulate 3
        plan {NET} --gpu l4 --checkpointing
        plan {NET} --gpu l4 --gpus 4
        plan {NET} --gpu l4 --gpus l4
        plan {NET} --gpu l4 --gpus 65
        plan {NET} --gpu l4 --sharding zero2
        plan {NET} --gpu l4 --host cloud
        plan {NET} --gpu l4 --torch two
        plan {NET} --gpu l4 --torch 1.5
        plan {NET} --gpu l4 --power-limit 300
        plan {NET} --gpu l4 --power-limit 5s
        plan {NET} --gpu l4 --where 'memory >= 999 GiB'
        plan {NET} --gpu l4 --where 'colour = red'
        plan {NET} --gpu l4 --where 'memory >='
        plan {NET} --gpu l4 --vendor Banana
        plan {NET} --gpu l4 --arch Banana
        plan {NET} --gpu l4 --min-memory 24
        plan {NET} --gpu l4 --provider nobody
        plan {NET} --gpu l4 --region moon
        plan {NET} --gpu l4 --currency XXX
        plan {NET} --gpu l4 --currency EUR=-1
        plan {NET} --gpu l4 --max-price -1
        plan {NET} --gpu l4 --utilization 0
        plan {NET} --gpu l4 --utilization 2
        plan {NET} --gpu l4 --utilization x
        plan {NET} --gpu l4 --max-latency 50
        plan {NET} --gpu l4 --max-latency '5 parsecs'
        plan {NET} --gpu l4 --min-throughput -1
        plan {NET} --gpu l4 --max-power-draw 400
        plan {NET} --gpu l4 --samples 0
        plan {NET} --gpu l4 --epochs 2
        plan {NET} --gpu l4 --rate x
        plan {NET} --gpu l4 --rate 500/s --samples 10
        plan {NET} --gpu l4 --calibration nosuch.yaml
        plan {NET} --gpu l4 --specs nosuch
        plan {NET} --gpu l4 --sort colour
        plan {NET} --gpu l4 --top 0
        plan {NET} --gpu l4 --all --top 3
        plan {NET} --gpu l4 --format xml
        plan {NET} --gpu l4 --json --format csv
        plan {NET} --gpu l4 -o nosuch/plan.json
        plan {NET} --gpu l4 -o plan.xyz
        plan {NET} --gpu l4 --color red
        plan {NET} --gpu l4 --input x=3x5
        plan {NET} --gpu l4 --arg width=3
        plan {NET} --gpu l4 --seq-len 0
        plan {NET} --gpu l4 --freeze ''
        plan {NET} --gpu l4 --set steps=3
        plan {NET} --gpu l4 --part vae.precision=fp32
        plan {NET} --gpu l4 --offload model
        plan {NET} --gpu l4 --ulysses 2
        plan {NET} --gpu l4 --ulysses 65
        plan {NET} --gpu l4 --new-tokens 5000
        plan {NET} --gpu l4 --weights int3
        plan {NET} --gpu l4 --activations int8
        plan {NET} --gpu l4 --selected-share 2
        plan nosuch.trace.json
        plan tiny.pipeline.yaml --train
        plan tiny.pipeline.yaml --set nosuch=3
        plan tiny.pipeline.yaml --set steps=x
        plan tiny.pipeline.yaml --part nosuch.precision=fp16
        plan qwen3-8b
        plan --nosuch
        plna
    """,
    "others": f"""
        compare {NET} --gpu l4 --precision fp17
        compare {NET} --gpu h101
        compare {NET} --gpu l4 --batch 0
        compare {NET} --gpu l4 --sort colour
        compare {NET} --gpu l4 --max-latency 5
        estimate {NET} --gpu l4 --gain 2
        estimate {NET} --gpu l4 --batch max
        estimate {NET} --gpu l4 --top 0
        estimate {NET} --gpu l4 --plot x.bmp
        estimate {NET} --gpu l4,t4 --explain
        memory {NET} --gpu l4 --sharding zero9
        memory {NET} --gpu l4 --sharding zero2
        memory {NET} --gpu l4 --gpus 0
        memory {NET} --gpu l4 --batch x
        memory {NET} --gpu nope
        memory {NET} --gpu l4 --plot x.bmp
        analyze {NET} --batch 0
        analyze {NET} --depth 0
        analyze {NET} --top -1
        analyze {NET} --compare
        trace {NET} -o {NET}
        measure {NET}
        measure
        measure --compare before.jsonl
        measure --export nosuch.jsonl
        gpus --where 'colour = red'
        gpus --sort colour
        gpus --columns colour
        gpus --min-memory much
        gpus show nosuch
        gpus show a100
        gpus compare l4 nosuch
        gpus new --from nosuch
        gpus validate nosuch
        gpus validate measured.csv
        gpus nosuch
        prices --gpu nosuch
        prices --old
        prices --max-age -1
        prices --term never
        prices --tier none
        prices --compare colour
        prices --compare provider --json
        prices import nosuch.csv -o mine
        prices import measured.csv -o mine
        check nosuch.json --gpu l4 --batch 8
        check resnet50.plan.json --gpu l4
        check resnet50.plan.json --gpu l4 --batch 8
        check resnet50.plan.json --gpu l4 --batch 7 --max-latency 5ms
        check resnet50.plan.json --gpu nosuch --batch 8 --max-latency 5ms
        check resnet50.plan.json --gpu rtx-4090 --batch 8 --max-latency 5ms
        check measured.csv --gpu l4 --batch 8 --max-latency 5ms
        diff resnet50.plan.json nosuch.json
        diff resnet50.plan.json resnet50.plan.json --format csv
        schema nosuch
        validate nosuch.csv
        validate serving.csv
        validate measured.csv --by nosuch
        validate measured.csv --worst -1
        calibrate fit measured.csv -o own.yaml --folds 1
        calibrate fit measured.csv -o own.yaml --serves nosuch
        calibrate power measured.csv -o own.yaml
        cache clear
        config --format xml
        sweep nosuch.yaml -o out
        sweep sweep.yaml
        sweep sweep.yaml -o out --workers 0
        sweep sweep.yaml -o out --time-limit 5
        sweep sweep.yaml -o out --memory-limit 5s
        query nosuch cheapest
        query . cheapest
        report
        report resnet50.plan.json -o report.xyz
        report resnet50.plan.json --load nosuch.yaml -o report.md
        report resnet50.plan.json --terms never -o report.md
        report resnet50.plan.json --certainty 2 -o report.md
        report resnet50.plan.json --region moon -o report.md
        report resnet50.plan.json --max-power 20 -o report.md
        report resnet50.plan.json --segment toys -o report.md
        report resnet50.plan.json --deny-gpu nosuch -o report.md
        report resnet50.plan.json --load image-service.load.yaml --llm llm.load.yaml -o report.md
        serve --port 70000
        serve --host 0.0.0.0
    """,
    "llm": """
        llm memory qwen3-8b
        llm memory qwen3-9b --gpu l4
        llm memory qwen3-8b --gpu h101
        llm memory qwen3-8b --gpu l40s --tp 0
        llm memory qwen3-8b --gpu l40s --tp 3
        llm memory qwen3-8b --gpu l40s --weights fp3
        llm memory qwen3-8b --gpu l40s --kv banana
        llm memory qwen3-8b --gpu l40s --engine triton
        llm memory qwen3-8b --gpu l40s --engine-version 0.1
        llm memory qwen3-8b --gpu l40s --utilization 2
        llm memory qwen3-8b --gpu l40s --max-len 0
        llm memory qwen3-8b --gpu l40s --gpu-layers 5
        llm memory qwen3-8b --gpu l40s --n-cpu-moe 2
        llm memory qwen3-8b --gpu l40s --kv-pool 5s
        llm memory qwen3-8b --gpu l40s --ep 2
        llm estimate qwen3-8b --gpu l40s -c 0
        llm estimate qwen3-8b --gpu l40s -c many
        llm estimate qwen3-8b --gpu l40s --prefix-hits 2
        llm estimate qwen3-8b --gpu l40s --sampling odd
        llm estimate qwen3-8b --gpu l40s --link fast
        llm estimate qwen3-8b --gpu l40s --prefill later
        llm estimate qwen3-8b --gpu l40s --token-budget 3
        llm estimate qwen3-8b --gpu l40s --measured nosuch.json
        llm estimate qwen3-8b --gpu l40s --cpu nosuch
        llm estimate qwen3-8b --gpu t4 --weights fp8 --engine-version 0.9
        llm plan qwen3-8b
        llm plan qwen3-8b --rate 0
        llm plan qwen3-8b --rate 1 --concurrency 2
        llm plan qwen3-8b --prompts 100
        llm plan qwen3-8b --within 8h
        llm plan qwen3-8b --rate 1 --within 8h
        llm plan qwen3-8b --rate 1 --draft-tokens 3
        llm plan qwen3-8b --rate 1 --acceptance 0.5
        llm plan qwen3-8b --rate 1 --task sing
        llm plan qwen3-8b --rate 1 --images 3
        llm plan qwen3-8b --rate 1 --image-size big
        llm plan qwen3-8b --rate 1 --spread 0.2 --input-cv 1
        llm plan qwen3-8b --rate 1 --max-ttft 5
        llm plan qwen3-8b --rate 1 --percentile 42
        llm plan qwen3-8b --rate 1 --certainty 2
        llm plan qwen3-8b --rate 1 --engine triton
        llm plan qwen3-8b --rate 1 --kv banana
        llm plan qwen3-8b --rate 1 --growth much
        llm plan qwen3-8b --rate 1 --years 0
        llm plan qwen3-8b --rate 1 --hours-of-use 25-8
        llm plan qwen3-8b --rate 1 --days-per-week 8
        llm plan qwen3-8b --rate 1 --api-price 3
        llm plan qwen3-8b --rate 1 --provider nobody
        llm plan qwen3-8b --rate 1 --gpu h101
        llm plan qwen3-8b --rate 1 --documents 3
        llm simulate qwen3-8b --gpu l40s
        llm simulate qwen3-8b --gpu l40s --rate 0
        llm simulate qwen3-8b --gpu l40s --rate x
        llm fleet nosuch.yaml
        llm fleet llm.load.yaml
        llm fleet fleet.yaml --share-gpus 3
        llm report qwen3-8b -o report.md
        llm report qwen3-8b --load fleet.yaml -o report.md
        llm report qwen3-8b --load llm.load.yaml -o report.xyz
        llm models nosuch
        llm models --where 'colour = red'
        llm validate nosuch.csv
        llm validate measured.csv
        llm fit serving.csv
        llm fit-memory nosuch.log
        llm train memory llama-3.1-8b-instruct
        llm train memory llama-3.1-8b-instruct --gpu l4 --method magic
        llm train memory llama-3.1-8b-instruct --gpu l4 --rank 0
        llm train memory llama-3.1-8b-instruct --gpu l4 --states odd
        llm train estimate llama-3.1-8b-instruct --gpu l4 --tokens much
        llm train estimate llama-3.1-8b-instruct --gpu l4 --tokens 1B --samples 5
        llm train estimate llama-3.1-8b-instruct --gpu l4 --gpus 0
        llm train plan llama-3.1-8b-instruct
        llm train plan llama-3.1-8b-instruct --tokens 1B --deadline soon
        llm train plan nosuch --tokens 1B
        llm train validate measured.csv
    """,
}
"""Commands that are refused, one a line."""

LOADS: Mapping[str, tuple[str, ...]] = {
    "report resnet50.plan.json --load FILE -o report.md": (
        "", "[]", "service: 3", "servce: {}", "service: {}", "service: {peak: many}", "service: {peak: 5/s, mean: 9/s}",
        "service: {peak: 5/s, latency: 5}", "service: {peak: 5/s, percentile: 200}", "service: {peak: 5/s, spares: -1}",
        "service: {peak: 5/s, growth_per_year: x}", "service: {peak: 5/s}\njob: {samples: 3}", "job: {}",
        "job: {samples: 3}", "job: {samples: 3, deadline: 5}", "job: {samples: -3, deadline: 5h}",
        "training: {samples: 3, deadline: 5h, epochs: -1}", "service: {peak: 5/s}\nterms: never",
        "service: {peak: 5/s}\nassumptions: {usd_per_kwh: x}", "service: {peak: 5/s}\nassumptions: {nosuch: 1}",
        "service: {peak: 5/s}\ninventory: [{gpu: nosuch, count: 1}]", "images: lots",
        "images: 3 per second, p95 under 8",
        "service: {peak: 5/s}\nmax_capex: -1", "service: {peak: 5/s, peak: 6/s}", "services: []", "service: [",
    ),
    "llm report qwen3-8b --load FILE -o report.md": (
        "", "rate: 0", "rate: x", "rate: 1\nconcurrency: 2", "rate: 1\nkv: banana", "rate: 1\nutilization: 0",
        "rate: 1\ngpu: [h101]", "rate: 1\ntp: [0]", "rate: 1\nlimits: {ttft: 5}", "rate: 1\nlimits: {nosuch: 5s}",
        "rate: 1\nnosuch: 5", "rate: 1\nhours: 25-8", "rate: 1\ngrowth: x", "rate: 1\napi_price: {input: 1}",
        "prompts: 5", "rate: 1\npercentile: 42", "rate: 1\nengine: triton", "rate: 1\ntask: sing",
    ),
    "llm fleet FILE": (
        "", "models: []", "models: [{model: qwen3-9b, rate: 1}]", "models: [{model: qwen3-8b}]",
        "models: [{model: qwen3-8b, rate: 1, nosuch: 3}]", "gpu: [h101]\nmodels: [{model: qwen3-8b, rate: 1}]",
    ),
    "sweep FILE -o out --dry-run": (
        "", "models: []", "models: [net.trace.json.gz]", "models: [net.trace.json.gz]\ngpus: [h101]",
        "models: [net.trace.json.gz]\ngpus: [l4]\nworkloads: [{batch: x}]",
        "models: [net.trace.json.gz]\ngpus: [l4]\nworkloads: [{precision: fp17}]",
        "models: [net.trace.json.gz]\ngpus: [l4]\nworkloads: [{nosuch: 1}]",
        "models: [net.trace.json.gz]\ngpus: [l4]\nworkloads: [{accumulate: 2}]",
        "models: ['llm:qwen3-8b']\ngpus: [l4]\nworkloads: [{mode: serving, kv: banana}]",
        "models: ['llm:qwen3-8b']\ngpus: [l4]\nworkloads: [{mode: serving, tp: 0}]",
        "models: [net.trace.json.gz]\ngpus: {where: 'colour = red'}", "models: [{nosuch: a}]\ngpus: [l4]",
        "models: [nosuch.trace.json]\ngpus: [l4]", "modles: []",
    ),
    "config": (
        "nonsense = 1", "gpu = 3", "[plan]\nbatch = 'x'", "[plan]\nnosuch = 1", "[nosuch]\ngpu = ['l4']", "gpu = [",
        "[plan]\nutilization = 2", "[llm.plan]\nrate = 1", "color = 'red'",
    ),
    "gpus show next-card --specs FILE": ("", "name: 3", "- 1", "name: X\nnosuch: 1", "name: X\nmemory: 5"),
}  # fmt: skip
"""Files by the command that reads each: what they hold is refused."""

CALLED: Mapping[str, Callable[[], object]] = {
    "plan(NET, gpus=h101)": lambda: capplan.plan(NET, gpus="h101"),
    "plan(NET, batches=0)": lambda: capplan.plan(NET, batches=0),
    "plan(NET, batches=x)": lambda: capplan.plan(NET, batches="x"),
    "plan(NET, precision=fp17)": lambda: capplan.plan(NET, precision="fp17"),
    "plan(NET, max_latency_s=5 parsecs)": lambda: capplan.plan(NET, max_latency_s="5 parsecs"),
    "plan(NET, max_latency_s=-1)": lambda: capplan.plan(NET, max_latency_s=-1),
    "plan(NET, accumulate=3)": lambda: capplan.plan(NET, accumulate=3),
    "plan(NET, sort=colour)": lambda: capplan.plan(NET, sort="colour"),
    "plan(NET, train=True)": lambda: capplan.plan(NET, train=True),
    "plan(NET, specs=3)": lambda: capplan.plan(NET, specs=3),
    "plan(NET, where=x)": lambda: capplan.plan(NET, where="x"),
    "plan(NET, nosuch=1)": lambda: capplan.plan(NET, nosuch=1),
    "plan()": capplan.plan,
    "memory(NET, shardings=zero9)": lambda: capplan.memory(NET, shardings="zero9"),
    "estimate(NET, gpus=l4, gain=3)": lambda: capplan.estimate(NET, gpus="l4", gain=3),
    "prices(old=True)": lambda: capplan.prices(old=True),
    "load_gpus(overlays=nosuch)": lambda: capplan.load_gpus(overlays="nosuch"),
    "load_trace(nosuch)": lambda: capplan.load_trace("nosuch"),
    "read_sweep(nosuch)": lambda: capplan.read_sweep("nosuch"),
    "sweep([], out)": lambda: capplan.sweep([], "out"),
    "make_report(NET, batches=8, load=3)": lambda: capplan.make_report(NET, batches=8, load=3),
    "llm.plan(qwen3-8b)": lambda: capplan.llm.plan("qwen3-8b"),
    "llm.plan(qwen3-8b, rate, concurrency)": lambda: capplan.llm.plan("qwen3-8b", rate_per_s=1, concurrency=2),
    "llm.plan(qwen3-9b)": lambda: capplan.llm.plan("qwen3-9b", rate_per_s=1),
    "llm.estimate(qwen3-8b, l4, tp=0)": lambda: capplan.llm.estimate("qwen3-8b", "l4", tp=0),
    "llm.memory(qwen3-8b, h101)": lambda: capplan.llm.memory("qwen3-8b", "h101"),
    "llm.simulate(qwen3-8b, l40s)": lambda: capplan.llm.simulate("qwen3-8b", "l40s"),
    "llm.train_plan(x)": lambda: capplan.llm.train_plan("x", tokens=1e9),
}
"""Calls that are refused, by how they are written."""


def _said(command: str) -> str:
    done = run(shlex.split(command))
    said = done.stderr if done.exit_code else f"{done.stdout[:200]}{done.stderr}"
    return "".join(f"    {line}\n" for line in [f"[exit {done.exit_code}]", *said.splitlines()])


def _typed(lines: str) -> str:
    with world():
        commands = [line.strip() for line in lines.splitlines() if line.strip()]
        return masked("".join(f"{command}\n{_said(command)}" for command in commands))


def _files(command: str, texts: tuple[str, ...]) -> str:
    parts = []
    for text in texts:
        with world():
            file = Path("capplan.toml" if command == "config" else "file.yaml")
            file.write_text(text, encoding="utf-8")
            parts.append(masked(f"{text}\n{_said(command.replace('FILE', str(file)))}"))
    return f"{command}\n\n" + "\n".join(parts)


def _called() -> str:
    parts = []
    with world():
        for words, call in CALLED.items():
            try:
                said = f"answered: {type(call()).__name__}"
            except (CapplanError, TypeError) as error:
                said = f"{type(error).__name__}: {error}"
            parts.append(masked(f"{words}\n    {said}\n"))
    return "".join(parts)


def _name(command: str) -> str:
    """Return the words of a command before its options and files, such as llm-report."""
    words = command.partition(" FILE")[0].partition(" -")[0].split()
    return "-".join(word for word in words if word.isalpha())


def _typing(lines: str) -> Callable[[], str]:
    return lambda: _typed(lines)


def _reading(command: str, texts: tuple[str, ...]) -> Callable[[], str]:
    return lambda: _files(command, texts)


CASES: Mapping[str, Callable[[], str]] = {
    **{f"refused/{name}": _typing(lines) for name, lines in TYPED.items()},
    **{f"refused/file-{_name(command)}": _reading(command, texts) for command, texts in LOADS.items()},
    "refused/python": _called,
}
"""What makes each list of refusals, by its name."""
