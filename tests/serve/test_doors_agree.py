"""Random questions are answered alike by the command line, Python, HTTP, assistants' tools, forms and load files."""

import asyncio
import json
import random
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import capplan
import capplan.llm
from capplan.serve.page.verb_page import verb_forms
from capplan.shapes.codec import to_plain
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.read import changed_fields, command_of, read_question
from capplan.verbs.statement.registry import TOOLS, find_verb
from tests.nightly import mostly_nightly
from tests.serve.conftest import Answer, Served, command, sentence

mcp = pytest.importorskip("mcp", reason="needs the SDK of the Model Context Protocol: pip install '.[mcp]'")

pytestmark = [pytest.mark.slow, pytest.mark.zoo]

GPUS = ("t4", "l4", "l40s", "a10", "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "mi300x", "rtx-4090")
LANGUAGE = ("qwen3-8b", "llama-3.1-8b", "qwen3-32b", "mistral-7b-instruct-v0.3", "gemma-2-9b-it")
Choices = Mapping[str, tuple[Any, ...]]
OF_VISION: Choices = {
    "precision": ("fp32", "fp16", "amp-bf16", "bf16"), "framework": ("eager", "compile"), "layout": ("nchw", "nhwc"),
    "host": ("server", "desktop"), "max_usd_per_hour": (1.5, 4.0), "utilization_fraction": (0.8, 0.95),
    "providers": (["aws"], ["gcp", "azure"]), "regions": (["EU"], ["US"]), "currency": ("EUR=1.1",),
    "train": (True,), "optimizer": ("sgd", "adamw"), "priced": (True,),
}  # fmt: skip
CASES: Mapping[str, tuple[Choices, Choices, Choices]] = {
    "plan": (
        {"model": ("torchvision:resnet18", "torchvision:mobilenet_v3_small")},
        {"batches": ([1], [8, 32], "1..16")},
        {**OF_VISION, "max_latency_s": (0.005, "40ms"), "min_throughput_per_s": (200.0,), "energy": (True,),
         "sort": ("latency", "cost", "memory"), "power_limit_w": (150.0, "250W"), "gpu_count": (2,)},
    ),
    "llm plan": (
        {"model": LANGUAGE},
        {"rate_per_s": (0.5, 2), "input_len": (256, 2000), "output_len": (64, 300)},
        {"max_ttft_s": (0.5, "2s"), "max_tpot_s": ("30ms", 0.08), "percentile": ("p95", "mean"), "weights": (["fp8"],),
         "kv": ("fp8",), "engines": (["vllm"], ["sglang"]), "redundancy": (1,), "providers": (["aws"],),
         "energy": (True,), "input_cv": (0.5,), "prefix_fraction": (0.4,), "growth_fraction": (0.2,),
         "max_usd_per_hour": (20.0,), "everything": (True,), "certainty_fraction": (0.9,), "tp": ([1], [2]),
         "currency": ("EUR=1.1",)},
    ),
    "llm train plan": (
        {"model": LANGUAGE},
        {"tokens": ("5M", 2e7), "seq_len": (1024, 4096)},
        {"method": ("lora", "qlora", "full"), "max_gpus": (2, 8), "deadline_s": ("2d", 86400.0),
         "budget_usd": (500.0, "2k"), "optimizer": ("adamw", "sgd"), "objective": ("dpo", "sft"),
         "rank": (8, 64), "padded": (True,), "fused_loss": (True,), "counts": ([1, 4],),
         "everything": (True,), "providers": (["aws", "gcp"],)},
    ),
    "report": (
        {"models": (["torchvision:resnet18"],)},
        {"batches": ([8], "1..16")},
        {**OF_VISION, "usd_per_kwh": (0.3,), "deny_providers": (["aws"],), "certainty_fraction": (0.95,),
         "terms": (["on-demand"],), "buyer": ("de",), "any_vendor": (True,), "max_price_age_days": (400,)},
    ),
}  # fmt: skip
"""By verb: what it is asked about, what each question states, and what one may state besides."""


def drawn_question(seed: int) -> tuple[str, dict[str, Any]]:
    """Draw a verb and a question, as JSON has it."""
    drawn = random.Random(seed)
    path = list(CASES)[seed % len(CASES)]
    subject, stated, further = CASES[path]
    asked = {name: drawn.choice(values) for name, values in {**subject, **stated}.items()}
    asked["gpus"] = sorted(drawn.sample(GPUS, drawn.randint(1, 3)))
    for name in drawn.sample(sorted(further), drawn.randint(0, 4)):
        asked[name] = drawn.choice(further[name])
    if "optimizer" in asked and path in ("plan", "report"):
        asked["train"] = True
    return path, asked


@pytest.fixture(scope="module")
def through_tools(served: Served) -> Callable[[str, dict[str, Any]], Any]:
    """Return what asks a verb as an assistant does, and returns the whole answer or the refusal."""
    from mcp.client.streamable_http import streamable_http_client

    async def talk(path: str, asked: dict[str, Any]) -> Any:
        tool = path.replace(" ", "_")
        usual = {field.wire for field in find_verb(path).fields_at(Door.HTTP) if field.is_usual}
        first = {name: value for name, value in asked.items() if name in usual}
        more = {name: value for name, value in asked.items() if name not in usual}
        given = (tool, {**first, "more": more} if more else first)
        if path not in TOOLS:
            given = ("ask", {"tool": tool, "arguments": asked})
        async with mcp.Client(streamable_http_client(f"http://127.0.0.1:{served.port}/mcp")) as client:
            answer = await client.call_tool(*given)
            if answer.is_error:
                return answer.content[0].text
            whole = answer.structured_content["whole"]
            return json.loads((await client.read_resource(whole)).contents[0].text)

    return lambda path, asked: asyncio.run(talk(path, asked))


def whole_answer(served: Served, address: str, asked: dict[str, Any]) -> Answer:
    """Return the answer of the service once what makes it faster has been traced, too."""
    answer = served.post(address, asked)
    for _ in range(100):
        if "capplan-partial" not in answer.headers:
            break
        time.sleep(0.5)
        answer = served.post(address, asked)
    return answer


def in_python(path: str, question: Any, asked: dict[str, Any]) -> Any:
    """Ask the function of Python, and return its answer as JSON has it."""
    name = path.replace(" ", "_")
    function = getattr(capplan.llm, name.removeprefix("llm_")) if path.startswith("llm") else getattr(capplan, name)
    verb = find_verb(path)
    assert verb.document is not None
    taken = {field.name for field in verb.fields_at(Door.PYTHON)}
    answer = function(**{name: value for name, value in asked.items() if name in taken})
    return json.loads(json.dumps(to_plain(verb.document([answer], question))))


@pytest.mark.parametrize("seed", mostly_nightly(range(300), daily=range(8)))
def test_a_random_question_has_one_answer_at_every_door(served, through_tools, tmp_path: Path, seed: int):
    path, asked = drawn_question(seed)
    verb = find_verb(path)
    question = read_question(verb.question, asked, door=Door.HTTP)
    answer = whole_answer(served, f"/api/v1/{path.replace(' ', '/')}", asked)
    words = shlex.split(command_of(verb, question))[1:]
    if answer.status != 200:
        assert answer.status in (400, 422), answer.body
        assert sentence(*words), f"only HTTP refuses: {answer.detail}"
        assert isinstance(through_tools(path, asked), str)
        return
    expected = answer.json
    if path == "report":
        out = tmp_path / "report.json"
        command(*words, "-o", out)
        assert {**json.loads(out.read_text()), "command": expected["command"]} == expected  # each prints its own
    else:
        assert json.loads(command(*words, "--json")) == expected
        assert worded_alike(in_python(path, question, asked), expected)
        form = verb_forms()[path]
        state = replace(form.read([(name, as_words(value)) for name, value in asked.items()]), verb=path)
        assert form.question(verb, state) == question
    assert through_tools(path, asked) == expected
    if path == "llm plan":
        stated = changed_fields(question, door=Door.LOAD)
        load = {field.file_key: value_in_file(field, value) for field, value in stated.items() if field.name != "model"}
        file = tmp_path / "load.yaml"
        file.write_text(yaml.safe_dump(load))
        assert json.loads(command("llm", "plan", asked["model"], "--load", file, "--json")) == expected


def worded_alike(found: Any, expected: Any) -> bool:
    """Return True if two documents are equal, texts aside that name an option, which each door names in its words."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(worded_alike(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(worded_alike, found, expected))
    return found == expected or (isinstance(expected, str) and "--" in expected and isinstance(found, str))


def as_words(value: Any) -> str:
    """Return a value as a form sends it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def value_in_file(field: Any, value: Any) -> Any:
    """Return a field's value as a load file holds it."""
    if field.option.words is not None:
        return field.option.words.write(value)
    return json.loads(json.dumps(to_plain(value)))
