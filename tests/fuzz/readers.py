"""Files of every reader, bent by chance, each asked of a whole command in a process of its own.

`python -m tests.fuzz.readers 0 20000` tries the cases of these seeds and prints the failures: a case is made of its
seed alone, so that one that fails can be run again. The processes are forks of one that has loaded the program, which
take some hundredths of a second.
"""

import gc
import gzip
import json
import os
import random
import re
import resource
import shlex
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.fuzz.mutations import NUMBERS, OTHERS, TEXTS, places
from tests.golden.world import world

DOCUMENTED = (0, 1, 2, 3, 4)
LONGEST_S = 20
"""Processor time that no answer about a small file comes near. [s]"""
MOST_BYTES = 2 * 2**30
"""Memory that none comes near: a process that has loaded the program holds 0.1 GB. [bytes]"""
INPUTS = Path(__file__).parents[1] / "golden" / "inputs"
EXAMPLES = Path(__file__).parents[2] / "examples"
UNPRINTABLE = set(map(chr, (*range(9), 11, 12, *range(14, 32), 127, *range(128, 160), 0x202E, 0x2066)))
LLM = "llama-3.1-8b-instruct --gpu h100-sxm5-80gb"


@dataclass(frozen=True)
class Reader:
    """A kind of file: its name, what a good one holds, and the command that reads it, run in its folder."""

    file: str
    content: str
    command: str


def _rows(count: int, row: Callable[[int], object]) -> str:
    return "".join(f"{line if isinstance(line := row(number), str) else json.dumps(line)}\n" for number in range(count))


def _example(name: str) -> str:
    return ((INPUTS if (INPUTS / name).exists() else EXAMPLES) / name).read_text()


VLLM = {
    "model_id": "meta-llama/Llama-3.1-8B-Instruct", "backend": "vllm", "num_prompts": 100, "max_concurrency": 8,
    "completed": 100, "total_input_tokens": 102400, "total_output_tokens": 25600, "duration": 30.0,
    "output_throughput": 853.3, "mean_ttft_ms": 60.0, "mean_tpot_ms": 8.0, "p99_ttft_ms": 90.0,
}  # fmt: skip
GUIDELLM = {
    "benchmarks": [
        {"metrics": {name: {"successful": {"mean": mean}} for name, mean in (
            ("prompt_token_count", 512.0), ("output_token_count", 128.0), ("request_concurrency", 7.6),
            ("time_to_first_token_ms", 40.0), ("inter_token_latency_ms", 15.0), ("output_tokens_per_second", 480.0),
        )}}
    ]
}  # fmt: skip
PRICES = """\
provider: our-supplier
currency: EUR
usd_per_unit: 1.08
date: 2026-11-01
source: {kind: example, title: our contract}
hourly: [{gpu: l4, instance: big, gpus: 8, pricing: spot, region: there, per_hour: 4}]
purchase: [{gpu: t4, date: 2026-10-01, offer: quote, price: 9000, gpus: 1}]
"""
WEEK = "day: [1, 1, 1, 1, 1, 2, 4, 8, 9, 9, 9, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1]\n"
AXOLOTL = """\
base_model: meta-llama/Llama-3.1-8B-Instruct
load_in_4bit: true
adapter: qlora
datasets: [{path: tatsu-lab/alpaca, type: alpaca}]
lora_r: 8
lora_target_linear: true
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 2048
optimizer: paged_adamw_8bit
bf16: auto
"""
MEGATRON = """\
GPUS_PER_NODE=8
ARGS=( --micro-batch-size 1 --seq-length 2048 --bf16 --num-layers 4 --hidden-size 1024 --num-attention-heads 8
 --swiglu --vocab-size 1000 --tensor-model-parallel-size 2 )
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes ${NODES:-2} x.py ${ARGS[@]}
"""
TORCHTITAN = """\
[model]
flavor = "8B"
name = "llama3"
[training]
seq_len = 8192
local_batch_size = 2
[parallelism]
tensor_parallel_degree = 2
"""
SERVICE = """\
service: {daily: [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 5, 4, 3, 2], latency: 50 ms}
assumptions: {years: 3, usd_per_kwh: 0.2}
"""
FINITE = "prompts: 5000\nwithin: 8h\ninput_len: 512\noutput_len: 64\n"
NGINX = '10.0.0.1 - - [23/Nov/2026:10:00:{:02d} +0000] "POST /v1/chat/completions HTTP/1.1" 200 512 "-" "curl" 0.250'
LOAD = "load --from-logs calls.log"
CHECK = "check resnet50.plan.json --batch 32 --utilization 0.8"
PLAN = _example("resnet50.plan.json")
CARD = (EXAMPLES / "specs/next-card.yaml").read_text()
DEEPSPEED = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}'
TRAIN = f"llm train memory {LLM} --config"
REPORT = "report resnet50.plan.json --gpu l4"
READERS: Mapping[str, Reader] = {
    "prices": Reader("specs/prices/mine.yaml", PRICES, "prices --specs specs --provider our-supplier --json"),
    "prices in a plan": Reader("specs/prices/mine.yaml", PRICES, f"{CHECK} --specs specs --gpu h100-sxm5-80gb"),
    "prices validated": Reader("own/prices/mine.yaml", PRICES, "gpus validate own"),
    "card": Reader("specs/next-card.yaml", CARD, "gpus --specs specs --json"),
    "quotes": Reader("quotes.csv", _example("quotes.csv"), "prices import quotes.csv -o mine"),
    "vllm result": Reader("result.json", json.dumps(VLLM), f"llm estimate {LLM} -c 8 --measured result.json --json"),
    "guidellm": Reader("result.json", json.dumps(GUIDELLM), f"llm estimate {LLM} -c 8 --measured result.json --json"),
    "serving rows": Reader("serving.csv", _example("serving.csv"), "llm validate serving.csv --json"),
    "measured rows": Reader("measured.csv", _example("measured.csv"), "validate measured.csv --json"),
    "training rows": Reader("runs.csv", _example("runs.csv"), "llm train validate runs.csv"),
    "measurements": Reader("before.jsonl", _example("before.jsonl"), "measure --export before.jsonl --format csv"),
    "compared": Reader("before.jsonl", _example("before.jsonl"), "measure --compare before.jsonl after.jsonl"),
    "service": Reader("own.load.yaml", _example("image-service.load.yaml"), f"{REPORT} --load own.load.yaml -o r.md"),
    "day": Reader("own.load.yaml", SERVICE, f"{REPORT} --load own.load.yaml -o r.json"),
    "job": Reader("own.load.yaml", _example("nightly-job.load.yaml"), f"{REPORT} --load own.load.yaml -o r.json"),
    "services": Reader("s.load.yaml", _example("three-services.load.yaml"), "report --load s.load.yaml -o r.csv"),
    "llm load": Reader("llm.load.yaml", _example("llm.load.yaml"), "llm plan qwen3-8b --gpu l40s --load llm.load.yaml"),
    "finite run": Reader("llm.load.yaml", FINITE, "llm plan qwen3-8b --gpu l40s --tp 1 --load llm.load.yaml"),
    "fleet": Reader("fleet.yaml", _example("fleet.yaml"), "llm fleet fleet.yaml"),
    "week": Reader("week.yaml", WEEK, f"llm scale {LLM} --week week.yaml"),
    "week simulated": Reader("week.yaml", WEEK, f"llm simulate {LLM} --requests 200 --week week.yaml"),
    "axolotl": Reader("a.yaml", AXOLOTL, f"{TRAIN} a.yaml"),
    "megatron": Reader("run.sh", MEGATRON, f"{TRAIN} run.sh --gpus 16"),
    "torchtitan": Reader("t.toml", TORCHTITAN, f"{TRAIN} t.toml --gpus 8 --json"),
    "axolotl planned": Reader(
        "a.yaml", AXOLOTL, "llm train plan --gpu h100-sxm5-80gb --max-gpus 2 --tokens 1M --config a.yaml"
    ),
    "trl": Reader("sft.yaml", "dataset_name: x\nuse_peft: true\nmax_length: 2048\n", f"{TRAIN} sft.yaml"),
    "deepspeed": Reader("ds.json", DEEPSPEED, f"{TRAIN} ds.json"),
    "azure log": Reader(
        "calls.log", "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        + _rows(30, lambda n: f"2023-11-16 18:17:{n:02d}.0000000,{100 + n},{10 + n}"), LOAD,
    ),
    "litellm log": Reader(
        "calls.log", _rows(30, lambda n: {
            "startTime": 1.7e9 + n, "endTime": 1.7e9 + n + 3, "prompt_tokens": 500 + n, "completion_tokens": 50,
            "status": "success",
        }), f"{LOAD} --json",
    ),
    "nginx log": Reader("calls.log", _rows(30, NGINX.format), LOAD),
    "requests": Reader(
        "requests.csv", "arrival_s,input_len,output_len\n" + _rows(30, lambda n: f"{n / 4},{100 + n},{10 + n}"),
        f"llm simulate {LLM} --lengths requests.csv --json",
    ),
    "saved plan": Reader("resnet50.plan.json", PLAN, f"{CHECK} --gpu l4"),
    "saved diff": Reader("resnet50.plan.json", PLAN, "diff resnet50.plan.json bert.plan.json"),
    "accepted": Reader(
        "resnet50.plan.json", PLAN, "accept resnet50.plan.json --gpu l4 --measured before.jsonl",
    ),
    "accepted times": Reader(
        "before.jsonl", _example("before.jsonl"), "accept resnet50.plan.json --gpu l4 --measured before.jsonl --json",
    ),
    "pipeline": Reader("tiny.pipeline.yaml", _example("tiny.pipeline.yaml"), "memory tiny.pipeline.yaml --gpu l4"),
    "sweep": Reader("sweep.yaml", _example("sweep.yaml"), "sweep sweep.yaml -o out --workers 1 --dry-run --json"),
    "settings": Reader(".config/capplan/config.toml", '[plan]\ngpu = ["l4"]\nbatch = "32"\n', "config"),
}  # fmt: skip
"""Every reader by what it reads; files of exports, traces, calibrations, configurations have tests of their own."""


def case(seed: int) -> tuple[str, bytes]:
    """Draw the reader of a seed and a bent file for it."""
    chance = random.Random(seed)
    name = list(READERS)[seed % len(READERS)]
    reader = READERS[name]
    ways = [_damaged, _reworded, _reworded, _disguised]
    if reader.file.endswith((".json", ".yaml")):
        ways += [_bent] * 4
    if reader.file.endswith((".csv", ".jsonl", ".log")):
        ways += [_bent_lines] * 4
    return name, chance.choice(ways)(reader, chance)


def _value(chance: random.Random) -> Any:
    made = [
        float(chance.randint(-3, 3)),
        chance.randint(-10, 10**6),
        "".join(map(chr, chance.choices(range(1, 900), k=6))),
    ]
    return deepcopy(chance.choice([*NUMBERS, *TEXTS, *OTHERS, *made, *MEANT]))


MEANT = (
    "0,70", "1.234,56", "1e3", "٣", "yes", "~", "-", "auto", "0x10", "-1",
    "50 ms", "500 %", "5/s", "2026-11-01", "1 GiB", "l4", "evil.py:Net", "qwen3-8b+yarn9", "²",
    "=cmd|' /C calc'!A0", "<img src=x onerror=alert(1)>", "a" * 100_000, "1" * 5000, "[[" * 2000, "on-demand",
)  # fmt: skip
"""Values that a reader may take for what it expects: other numbers, units, names, formulas, and long ones."""


def _bend(tree: Any, chance: random.Random) -> Any:
    for _ in range(chance.randint(1, 3)):
        known = list(places(tree))
        if not known:
            return _value(chance)
        *path, last = chance.choice(known)
        part = tree
        for key in path:
            part = part[key]
        operation = chance.choice(["replace", "replace", "replace", "drop", "rename", "repeat"])
        if operation == "replace":
            part[last] = _value(chance)
        elif operation == "drop":
            del part[last]
        elif operation == "rename" and isinstance(part, dict):
            part[str(_value(chance))[:200]] = part.pop(last)
        elif isinstance(part, list):
            part.extend([deepcopy(part[last])] * chance.choice((1, 50, 2000)))
    return tree


def _bent(reader: Reader, chance: random.Random) -> bytes:
    if reader.file.endswith(".json"):
        return json.dumps(_bend(json.loads(reader.content), chance)).encode(errors="replace")
    tree = _bend(yaml.safe_load(reader.content), chance)
    text = json.dumps(tree, default=date.isoformat) if chance.random() < 0.3 else yaml.safe_dump(tree)
    return text.encode(errors="replace")


def _bent_lines(reader: Reader, chance: random.Random) -> bytes:
    lines = reader.content.splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        if lines[at].startswith("{"):
            lines[at] = json.dumps(_bend(json.loads(lines[at]), chance))
        else:
            cells = re.split(r"([,\s])", lines[at])
            cells[chance.randrange(len(cells))] = str(_value(chance))
            lines[at] = "".join(cells)
    return "\n".join(lines).encode(errors="replace")


def _reworded(reader: Reader, chance: random.Random) -> bytes:
    """Replace words or numbers of the text, wherever they stand."""
    words = re.split(r"([A-Za-z_]+|[0-9.]+)", reader.content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(words))
        words[at] = str(chance.choice([_value(chance), chance.choice(words)]))
    return "".join(words).encode(errors="replace")


def _damaged(reader: Reader, chance: random.Random) -> bytes:
    made = bytearray(reader.content.encode())
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(made) + 1)
        way = chance.randrange(4)
        if way == 0 and at < len(made):
            made[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            del made[at : at + chance.randint(1, 60)]
        elif way == 2:
            made[at:at] = chance.choice(
                [b"[", b"{", b'"', b"\0", b"\xff", b"&a", b"*a", b"!!python/none", b"\r", b"\xe2\x80\xa8"]
            )
        else:
            made[at:at] = chance.randbytes(chance.randint(1, 20))
    return bytes(made)


@cache
def _bomb() -> bytes:
    return gzip.compress(b"\0" * 50_000_000)


def _disguised(reader: Reader, chance: random.Random) -> bytes:
    """Write a good file in another encoding, compressed, repeated, cut or as something else."""
    content = reader.content.encode()
    half = content[: chance.randrange(len(content))]
    return chance.choice([
        b"", b"\n", b"\0" * 5000, b"\xef\xbb\xbf" + content, reader.content.encode("utf-16"), gzip.compress(content),
        _bomb(), content * 300, half, content.replace(b"\n", b"\r\n"), b"[" * 100_000,
        b'{"a":' * 50_000, b"a: " * 3000, b"a" * 3_000_000, content + half, chance.randbytes(3000),
        b"- " * 20_000, content.upper(), content.replace(b":", b"="), b"---\n" + content + b"\n---\n" + content,
    ])  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a process ended: its code, what it printed, its processor time [s] and its most memory [bytes]."""

    code: int
    output: str
    cpu_s: float
    most_bytes: int


def run(words: list[str]) -> Ended:
    """Run a command in a fork of this process, with its own streams and limits."""
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if not child:
            _be_capplan(words, out.fileno())
        _, status, usage = os.wait4(child, 0)
        out.seek(0)
        text = out.read(2_000_000).decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(status), text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _be_capplan(words: list[str], out: int) -> None:
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S + 1))
        sys.addaudithook(_refuse)
        from capplan.cli.main import main

        sys.argv = ["capplan", *words]
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _refuse(event: str, _: object) -> None:
    if event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect"):
        os.write(2, f"ATTACKED by {event}\n".encode())
        os._exit(98)


def failure(seed: int) -> str | None:
    """Try one case in the folder at hand; return what is wrong with how it ended, None where nothing is."""
    name, content = case(seed)
    reader = READERS[name]
    path = Path(reader.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    good = path.read_bytes() if path.exists() else None
    before = set(Path().rglob("*"))
    path.write_bytes(content)
    ended = run(shlex.split(reader.command))
    made = set(Path().rglob("*")) - before - {path}
    for file in sorted(made, reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.unlink() if good is None else path.write_bytes(good)
    wrong = {
        "its exit code": ended.code not in DOCUMENTED,
        "a traceback": "Traceback" in ended.output,
        "no sentence": ended.code == 2 and not ended.output.strip(),
        "characters that steer a terminal": bool(UNPRINTABLE & set(ended.output)),
        "its processor time": ended.cpu_s > LONGEST_S,
        "its memory": ended.most_bytes > MOST_BYTES,
        "a file half written": any(file.suffix in (".partial", ".tmp") for file in made),
        "a longer text than anyone reads": ended.code == 2 and len(ended.output) > 20_000,
    }
    found = [what for what, is_so in wrong.items() if is_so]
    return f"seed {seed}, {name}: {', '.join(found)} ({ended.code}): {ended.output[-1500:]}" if found else None


def warm() -> None:
    """Run each command once on its good file in this process, so that forks have loaded what it needs."""
    from tests.golden.world import run as run_here

    for name, reader in READERS.items():
        path = Path(reader.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(reader.content)
        answered = run_here(shlex.split(reader.command))
        for file in Path().glob("r.*"):
            file.unlink()
        assert answered.exit_code in (0, 1), (name, answered.exit_code, answered.stderr)
    gc.freeze()  # a fork that collects would copy the whole heap


def main() -> None:
    """Try the seeds from the first argument to before the second."""
    first, last = map(int, sys.argv[1:3])
    began, codes = time.monotonic(), Counter[str]()
    with world():
        warm()
        for seed in range(first, last):
            wrong = failure(seed)
            codes["failed" if wrong else "passed"] += 1
            if wrong:
                print(wrong, flush=True)
    print(f"seeds {first} to {last}: {dict(codes)} in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
