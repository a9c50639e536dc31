"""Twenty questions in plain words, each mapped by hand to a tool call, get the answer that the command line gives.

Words and calls were written as an assistant is expected to pair them; NET stands for an uploaded trace of the example
network. The figures come from the command line, which asks the same on this machine.
"""

import asyncio
import json
import shlex
import time
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the SDK of the Model Context Protocol: pip install '.[mcp]'")

from capplan.serve.mcp.tools import LONGEST_TEXT, PARTIAL
from tests.serve.conftest import Served, command
from tests.serve.test_mcp import as_listed, over_http

pytestmark = [pytest.mark.slow, pytest.mark.zoo]

LLAMA, QWEN = "llama-3.1-8b", "qwen3-8b"
QUESTIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("Does my network fit an L4 with 64 images at once?",
     "memory", {"model": "NET", "batch": 64, "gpus": ["l4"]}, "memory NET --batch 64 --gpu l4"),
    ("Which is faster for it at batch 8 in half precision, a T4 or an L4?",
     "plan", {"model": "NET", "batches": [8], "gpus": ["t4", "l4"], "precision": "fp16", "sort": "latency"},
     "plan NET --batch 8 --gpu t4,l4 --precision fp16 --sort latency"),
    ("Which GPUs answer it within 5 ms and cost less than a dollar an hour?",
     "plan", {"model": "NET", "batches": [1], "max_latency_s": 0.005, "max_usd_per_hour": 1},
     "plan NET --batch 1 --max-latency 5ms --max-price 1"),
    ("What is the cheapest AMD card for it at batch 32?",
     "plan", {"model": "NET", "batches": [32], "vendors": ["amd"], "sort": "cost"},
     "plan NET --batch 32 --vendor amd --sort cost"),
    ("What would training a ResNet-18 with Adam at batch 16 need on an RTX 4090?",
     "plan", {"model": "resnet18", "batches": [16], "gpus": ["rtx-4090"], "train": True, "optimizer": "adam"},
     "plan resnet18 --batch 16 --gpu rtx-4090 --train --optimizer adam"),
    ("How long does it train on an A100 for one epoch of 50,000 images, and what does that cost?",
     "plan", {"model": "resnet18", "batches": [32], "gpus": ["a100-sxm4-80gb"], "train": True, "samples": 50000},
     "plan resnet18 --batch 32 --gpu a100-sxm4-80gb --train --samples 50000"),
    ("How does its throughput grow from batch 1 to 64 on an L4?",
     "estimate", {"model": "NET", "batches": "1..64", "gpus": ["l4"]}, "estimate NET --batch 1..64 --gpu l4"),
    ("What should I change to make it faster on an L4 at batch 8?",
     "compare", {"model": "NET", "gpus": ["l4"], "batches": [8]}, "compare NET --gpu l4 --batch 8"),
    ("Which layers of it do the most work?",
     "analyze", {"model": "NET", "batch": 1, "top": 5}, "analyze NET --batch 1 --top 5"),
    ("How much memory does it take with int8 weights?",
     "memory", {"model": "NET", "batch": 8, "gpus": ["l4"], "weights": "int8"},
     "memory NET --batch 8 --gpu l4 --weights int8"),
    ("Can one L4 hold Llama 3.1 8B?", "llm_memory", {"model": LLAMA, "gpu": "l4"}, f"llm memory {LLAMA} --gpu l4"),
    ("And with 4-bit weights and 32k tokens of context?",
     "llm_memory", {"model": LLAMA, "gpu": "l4", "weights": "int4", "max_len": 32768},
     f"llm memory {LLAMA} --gpu l4 --weights int4 --max-len 32768"),
    ("How fast does Llama 3.1 8B answer 32 users on an H100?",
     "llm_estimate", {"model": LLAMA, "gpu": "h100-sxm5-80gb", "concurrency": [32]},
     f"llm estimate {LLAMA} --gpu h100-sxm5-80gb --concurrency 32"),
    ("What do I need for 3 requests a second to Qwen3 8B, prompts of 2,000 and answers of 200 tokens?",
     "llm_plan", {"model": QWEN, "rate_per_s": 3, "input_len": 2000, "output_len": 200, "gpus": ["l4", "l40s"]},
     f"llm plan {QWEN} --rate 3 --input-len 2000 --output-len 200 --gpu l4,l40s"),
    ("Which is the cheapest way to serve it so that nobody waits over half a second for the first word?",
     "llm_plan", {"model": QWEN, "rate_per_s": 2, "max_ttft_s": 0.5, "gpus": ["l40s", "h100-sxm5-80gb"]},
     f"llm plan {QWEN} --rate 2 --max-ttft 500ms --gpu l40s,h100-sxm5-80gb"),
    ("Which language models do you know?", "llm_models", {}, "llm models"),
    ("Which NVIDIA GPUs have at least 80 GiB?",
     "gpus", {"min_memory": "80GiB", "vendors": ["nvidia"]}, "gpus --min-memory 80GiB --vendor nvidia"),
    ("What are the figures of the MI300X, and who says so?", "gpus_show", {"gpu": "mi300x"}, "gpus show mi300x"),
    ("What does an H100 cost an hour?", "prices", {"gpus": ["h100-sxm5-80gb"]}, "prices --gpu h100-sxm5-80gb"),
    ("Which GPUs draw at most 75 watts?", "gpus", {"where": ["tdp <= 75 W"]}, "gpus --where 'tdp <= 75 W'"),
)  # fmt: skip


@pytest.fixture(scope="module")
def answers(served: Served, net: str) -> list[Any]:
    """The answer to each question, from the service over HTTP."""

    async def whole(client: Any, tool: str, asked: dict[str, Any]) -> Any:
        """Return a short answer, and the whole of it, once it lacks nothing: remarks whose traces are being made come
        later.
        """
        latest = time.monotonic() + 300
        while (
            PARTIAL in ((got := await client.call_tool(*as_listed(tool, asked))).meta or {})
            and time.monotonic() < latest
        ):
            await asyncio.sleep(1)
        address = got.structured_content["whole"]
        return got, json.loads((await client.read_resource(address)).contents[0].text)

    async def talk() -> list[Any]:
        async with over_http(f"http://127.0.0.1:{served.port}/mcp") as client:
            return [
                await whole(client, tool, {name: net if value == "NET" else value for name, value in asked.items()})
                for _, tool, asked, _ in QUESTIONS
            ]

    return asyncio.run(talk())


@pytest.mark.parametrize("index", range(len(QUESTIONS)), ids=lambda index: QUESTIONS[index][0])
def test_a_question_in_plain_words_gets_the_answer_of_the_command_line(answers, net_file, index):

    (answer, whole), words = answers[index], shlex.split(QUESTIONS[index][3])
    assert not answer.is_error, answer.content[0].text
    assert PARTIAL not in (answer.meta or {}), "what the answer lacks was not traced within five minutes"
    assert len(answer.content[0].text) <= LONGEST_TEXT
    assert len(json.dumps(answer.structured_content, ensure_ascii=False)) <= LONGEST_TEXT
    asked = [str(net_file) if word == "NET" else word for word in words]
    assert whole == json.loads(command(*asked, "--format", "json"))


def test_there_are_twenty_questions_and_each_is_another():
    assert len({(tool, json.dumps(asked)) for _, tool, asked, _ in QUESTIONS}) == 20
