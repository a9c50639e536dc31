"""An assistant's client gets from the tools what the command line prints; the client is the SDK's own."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

mcp = pytest.importorskip("mcp", reason="needs the SDK of the Model Context Protocol: pip install '.[mcp]'")

from mcp.client.streamable_http import streamable_http_client  # noqa: E402
from mcp.shared._httpx_utils import create_mcp_http_client  # noqa: E402

from capplan.serve.mcp.resources import PROMPTS  # noqa: E402
from capplan.serve.mcp.server import Started, make_server  # noqa: E402
from capplan.serve.mcp.tools import LONGEST_TEXT, asked_by_tool, short_text  # noqa: E402
from capplan.serve.planning.data import Folders  # noqa: E402
from capplan.serve.planning.files import Uploads  # noqa: E402
from capplan.serve.planning.messages import Reply  # noqa: E402
from capplan.serve.settings import ServiceLimits, Settings  # noqa: E402
from capplan.verbs.statement.options import Door  # noqa: E402
from capplan.verbs.statement.registry import TOOLS, find_verb, served_verbs  # noqa: E402
from tests.serve.conftest import EXAMPLES, LONGEST_S, command, serving  # noqa: E402

pytestmark = pytest.mark.slow

LLAMA = "llama-3.1-8b"
FLEET = {"gpus": ["l40s"], "models": [{"model": LLAMA, "rate": "2/s"}, {"model": "qwen3-8b", "rate": "1/s"}]}
LOAD = yaml.safe_load((EXAMPLES / "image-service.load.yaml").read_text())
QUESTIONS: Mapping[str, tuple[dict[str, Any], str]] = {
    "plan": (
        {"model": "NET", "batches": [32], "gpus": ["l4", "t4"], "precision": "amp-fp16"},
        "plan NET --batch 32 --gpu l4,t4 --precision amp-fp16",
    ),
    "compare": ({"model": "NET", "gpus": ["l4"], "batches": [8]}, "compare NET --gpu l4 --batch 8"),
    "analyze": ({"model": "NET", "batch": 4}, "analyze NET --batch 4"),
    "memory": ({"model": "NET", "batch": 64, "gpus": ["l4", "t4"]}, "memory NET --batch 64 --gpu l4,t4"),
    "estimate": ({"model": "NET", "batches": "1..64", "gpus": ["l4"]}, "estimate NET --batch 1..64 --gpu l4"),
    "llm_memory": ({"model": LLAMA, "gpu": "l4"}, f"llm memory {LLAMA} --gpu l4"),
    "llm_estimate": ({"model": LLAMA, "gpu": "h100-sxm5-80gb"}, f"llm estimate {LLAMA} --gpu h100-sxm5-80gb"),
    "llm_plan": (
        {"model": LLAMA, "gpus": ["l4", "h100-sxm5-80gb"], "rate_per_s": 2},
        f"llm plan {LLAMA} --gpu l4,h100-sxm5-80gb --rate 2",
    ),
    "llm_simulate": (
        {"model": LLAMA, "gpu": "l40s", "rates_per_s": [1], "requests": 200},
        f"llm simulate {LLAMA} --gpu l40s --rate 1 --requests 200",
    ),
    "llm_models": ({}, "llm models"),
    "llm_scale": (
        {"model": LLAMA, "gpu": "h100-sxm5-80gb", "requests_per_day": 2000},
        f"llm scale {LLAMA} --gpu h100-sxm5-80gb --requests-per-day 2000",
    ),
    "llm_start": ({"model": LLAMA, "gpu": "l4"}, f"llm start {LLAMA} --gpu l4"),
    "llm_support": ({"model": LLAMA, "gpu": "rtx-3090"}, f"llm support {LLAMA} --gpu rtx-3090"),
    "llm_fleet": ({"fleet": FLEET}, "llm fleet FLEET"),
    "llm_train_memory": (
        {"model": LLAMA, "gpu": "rtx-4090", "method": "qlora", "seq_len": 2048},
        f"llm train memory {LLAMA} --gpu rtx-4090 --method qlora --seq-len 2048",
    ),
    "llm_train_estimate": (
        {"model": LLAMA, "gpu": "h100-sxm5-80gb", "gpu_count": 8, "tokens": "10G"},
        f"llm train estimate {LLAMA} --gpu h100-sxm5-80gb --gpus 8 --tokens 10000000000",
    ),
    "llm_train_plan": (
        {"model": LLAMA, "gpus": ["l40s", "h100-sxm5-80gb"], "counts": [8], "samples": "50k", "method": "lora"},
        f"llm train plan {LLAMA} --gpu l40s,h100-sxm5-80gb --gpus 8 --samples 50000 --method lora",
    ),
    "gpus": ({"min_memory": "80GiB", "vendors": ["nvidia"]}, "gpus --min-memory 80GiB --vendor nvidia"),
    "gpus_show": ({"gpu": "l4"}, "gpus show l4"),
    "gpus_compare": ({"gpus": ["l4", "t4"]}, "gpus compare l4 t4"),
    "prices": ({"gpus": ["l4"]}, "prices --gpu l4"),
}
"""By tool: its arguments, and the command that asks the same; NET stands for the example network's trace, FLEET for a
file of the fleet."""


def settings_in(folder: Path) -> Settings:
    return Settings(state=folder / "state", limits=ServiceLimits(planners=1, tracers=0))


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory, net_file: Path) -> dict[str, Any]:
    """What one client receives: every list, an answer of every tool, refusals, resources and prompts."""
    settings = settings_in(tmp_path_factory.mktemp("assistant"))
    uploads = Uploads(folder=Folders(state=settings.state).uploads, limit_bytes=2**30)
    started = Started(settings)
    server = make_server(started.service)
    model = uploads.keep(net_file.read_bytes())["model"]

    async def talk() -> dict[str, Any]:
        async with mcp.Client(server) as client:
            said: dict[str, Any] = {"tools": (await client.list_tools()).tools}
            said["answers"] = {}
            said["wholes"] = {}
            for tool, (arguments, _) in QUESTIONS.items():
                asked = {name: model if value == "NET" else value for name, value in arguments.items()}
                said["answers"][tool] = await client.call_tool(*as_listed(tool, asked))
                whole = said["answers"][tool].structured_content["whole"]
                said["wholes"][tool] = json.loads((await client.read_resource(whole)).contents[0].text)
            said["explained"] = await client.call_tool("ask", {"tool": "llm_plan"})
            further = {"model": model, "batches": [8], "more": {"vendors": ["amd"], "sort": "memory"}}
            said["more"] = await client.call_tool("plan", further)
            asked = {"model": model, "batches": "1..64", "gpus": ["l4", "t4"], "load": LOAD}
            said["answers"]["report"] = await client.call_tool("report", asked)
            whole = said["answers"]["report"].structured_content["whole"]
            said["wholes"]["report"] = json.loads((await client.read_resource(whole)).contents[0].text)
            served = {"model": LLAMA, "load": {"rate": "2/s", "gpu": "l40s", "engine": "vllm", "tp": 1}}
            said["answers"]["llm_report"] = await client.call_tool("llm_report", served)
            as_text = {"model": model, "batch": "64", "gpus": '["l4", "t4"]'}
            said["as text"] = await client.call_tool("memory", as_text)
            said["refusals"] = [await client.call_tool(tool, asked) for tool, asked, _ in REFUSED]
            said["resources"] = [str(each.uri) for each in (await client.list_resources()).resources]
            templates = (await client.list_resource_templates()).resource_templates
            said["templates"] = [each.uri_template for each in templates]
            addresses = (
                "capplan://gpus",
                "capplan://prices",
                "capplan://gpus/l4",
                "capplan://docs/tutorials/which-gpu",
            )
            said["contents"] = [(await client.read_resource(uri)).contents[0].text for uri in addresses]
            said["prompts"] = (await client.list_prompts()).prompts
            given = {"model": "hf:bert", "samples": "1000"}
            said["prompt"] = (await client.get_prompt("train_cost", given)).messages[0].content.text
            said["errors"] = []
            for failing in (
                lambda: client.call_tool("plans", {}),
                lambda: client.read_resource("capplan://gpus/l5"),
                lambda: client.read_resource("file:///etc/passwd"),
                lambda: client.get_prompt("train_cost", {"model": "hf:bert"}),
            ):
                with pytest.raises(mcp.MCPError) as error:
                    await failing()
                said["errors"].append(error.value.message)
            return said

    async def whole_talk() -> dict[str, Any]:
        try:
            return await talk()
        finally:
            await started.stop()

    return asyncio.run(whole_talk())


def as_listed(tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the listed tool, and its arguments, that ask what a question asks."""
    if asked_by_tool()[tool].path in TOOLS:
        return tool, dict(arguments)
    return "ask", {"tool": tool, "arguments": dict(arguments)}


REFUSED = [
    ("plan", {"model": "torchvision:resnet50", "batchs": 3}, "unknown field 'batchs'"),
    ("plan", {"model": "/etc/passwd"}, "/etc/passwd"),
    ("plan", {"model": "mine.py:Net"}, "mine.py"),
    ("plan", {"model": "torchvision:resnet50", "gpus": ["l5"]}, "unknown GPU 'l5'"),
    ("llm_memory", {"model": "meta/llama", "gpu": "l4"}, "asks the Hugging Face Hub only where its operator"),
    ("llm_memory", {"model": LLAMA}, "the field 'gpu' is missing"),
    ("gpus", {"where": ["x" * 2**20]}, "longer than"),
    ("ask", {"tool": "llm_plans"}, "did you mean llm_plan"),
    ("ask", {"tool": "gpus", "arguments": {"vendor": "nvidia"}, "more": {}}, "unknown field 'more'"),
    ("plan", {"model": "torchvision:resnet50", "more": {"batcher": 3}}, "unknown field 'batcher'"),
    ("plan", {"model": "torchvision:resnet50", "more": "all"}, "further arguments by name"),
]
"""Questions that are refused, and words of the sentence that says why."""


MOST_LISTED, MOST_TOOLS, MOST_ARGUMENTS = 40_000, 8, 14
"""What a list of tools may take of an assistant's memory. [characters, tools, arguments of each]"""


def test_the_list_of_tools_leaves_room_in_an_assistants_memory(conversation):
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in conversation["tools"]]
    assert len(json.dumps(listed)) <= MOST_LISTED
    assert len(listed) <= MOST_TOOLS
    assert max(len(tool.input_schema["properties"]) for tool in conversation["tools"]) <= MOST_ARGUMENTS


def test_each_verb_that_is_served_has_a_tool_or_is_asked_through_one(conversation):
    served = [path.replace(" ", "_") for path in served_verbs() if path != "trace"]  # its answer is a file
    names = [tool.name for tool in conversation["tools"]]
    assert names == [*(name for name in served if asked_by_tool()[name].path in TOOLS), "ask"]
    ask = conversation["tools"][-1]
    assert ask.input_schema["properties"]["tool"]["enum"] == served
    assert all(f"\n{name}: " in ask.description for name in served if name not in names)
    assert set(served) == set(conversation["answers"]), "each verb is asked something here"
    assert all(tool.annotations.read_only_hint for tool in conversation["tools"])


def test_every_argument_of_a_verb_is_shown_or_named_and_explained(conversation):
    plan = next(tool for tool in conversation["tools"] if tool.name == "llm_plan").input_schema["properties"]
    wires = [field.wire for field in find_verb("llm plan").fields_at(Door.HTTP)]
    named = plan["more"]["description"].rpartition(": ")[2].rstrip(".").split(", ")
    assert sorted([*plan, *named]) == sorted([*wires, "more"])
    text = conversation["explained"].content[0].text
    assert [name for name in wires if f"\n- {name}" not in text] == []


def test_further_arguments_count_as_if_they_stood_beside_the_others(conversation):
    answer = conversation["more"]
    assert not answer.is_error, answer.content[0].text
    assert "--vendor amd --sort memory" in answer.content[0].text


def test_schemas_are_valid_and_describe_the_fields(conversation):
    for tool in conversation["tools"]:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["type"] == "object"
    plan = next(tool for tool in conversation["tools"] if tool.name == "plan").input_schema
    jsonschema.validate({"model": "resnet50", "batches": [32], "max_latency_s": 0.01}, plan)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"model": 3}, plan)
    assert "description" in plan["properties"]["max_latency_s"]


@pytest.fixture(scope="module")
def words_of(net_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Return the words of the command that asks what a tool was asked."""
    fleet = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(FLEET))
    files = {"NET": str(net_file), "FLEET": str(fleet)}
    return lambda tool: [files.get(word, word) for word in QUESTIONS[tool][1].split()]


@pytest.mark.parametrize("tool", QUESTIONS)
def test_a_tool_answers_with_the_document_of_the_command_line(conversation, words_of, tool):
    answer = conversation["answers"][tool]
    assert not answer.is_error, answer.content[0].text
    document = json.loads(command(*words_of(tool), "--format", "json"))
    assert conversation["wholes"][tool] == document
    short = answer.structured_content
    assert len(json.dumps(short, ensure_ascii=False)) <= LONGEST_TEXT
    if not short["left_out"]:
        assert set(short["answer"]) == set(document)


def test_a_short_answer_keeps_the_verdict(conversation):
    """What decides: the GPUs that are recommended, with the cautions; whether a batch fits, and the largest."""
    short = {tool: answer.structured_content["answer"] for tool, answer in conversation["answers"].items()}
    wholes = conversation["wholes"]
    best = wholes["plan"]["recommended"]["cheapest"]
    assert short["plan"]["recommended"]["cheapest"]["gpu"] == best["gpu"]
    assert short["plan"]["offer_cautions"] == wholes["plan"]["offer_cautions"]
    assert wholes["llm_plan"]["recommended"]["gpu"] == short["llm_plan"]["recommended"]["gpu"]
    assert wholes["llm_plan"]["recommended"]["replicas"] == short["llm_plan"]["recommended"]["replicas"]
    verdicts = [{name: gpu[name] for name in ("gpu", "status", "max_batch")} for gpu in wholes["memory"]["gpus"]]
    assert [{name: gpu[name] for name in ("gpu", "status", "max_batch")} for gpu in short["memory"]["gpus"]] == verdicts
    assert short["llm_train_plan"]["cheapest"]["memory"]["gpu"] == wholes["llm_train_plan"]["cheapest"]["memory"]["gpu"]
    text = conversation["answers"]["memory"].content[0].text
    assert text.index("batch fits") < text.index("= peak allocated"), "the verdict is not what a cut takes away"


@pytest.mark.parametrize("tool", QUESTIONS)
def test_the_text_is_short_and_has_the_figures_of_the_table_of_the_command_line(conversation, words_of, tool):
    text = conversation["answers"][tool].content[0].text
    table = command(*words_of(tool))
    assert len(text) <= LONGEST_TEXT
    kept = re.split(r"\n\n(?:\[cut here|On the command line)", text)[0].splitlines()
    figures = [number for line in kept[:12] for number in line.split() if number[0].isdigit()]
    assert figures
    assert [number for number in figures if number not in table] == []


def test_a_report_on_serving_is_asked_for_by_the_content_of_a_load_file(conversation):
    answer = conversation["answers"]["llm_report"]
    assert not answer.is_error, answer.content[0].text
    assert "l40s" in answer.content[0].text
    assert len(json.dumps(answer.structured_content, ensure_ascii=False)) <= LONGEST_TEXT


def test_a_report_is_that_of_the_command_line_but_for_where_it_was_made(conversation, net_file, tmp_path, monkeypatch):
    answer = conversation["answers"]["report"]
    assert not answer.is_error, answer.content[0].text
    (tmp_path / "load.yaml").write_text(json.dumps(LOAD))
    monkeypatch.chdir(tmp_path)
    command("report", net_file, "--batch", "1..64", "--gpu", "l4,t4", "--load", "load.yaml", "-o", "r.json")
    ours, theirs = conversation["wholes"]["report"], json.loads((tmp_path / "r.json").read_text())
    assert {key for key in theirs if ours.get(key) != theirs[key]} <= {"command", "circumstances", "provenance"}
    text = answer.content[0].text
    assert len(text) <= LONGEST_TEXT
    assert "(with `load` from a file)" in text


def test_values_may_be_written_as_text(conversation):
    """The protocol's inspector writes every value as text whose schema is a choice of several."""
    assert conversation["as text"].structured_content == conversation["answers"]["memory"].structured_content


def test_the_text_names_the_command_that_asks_the_same(conversation):
    text = conversation["answers"]["llm_memory"].content[0].text
    assert f"On the command line: capplan llm memory {LLAMA} --gpu l4" in text


@pytest.mark.parametrize("index", range(len(REFUSED)), ids=lambda index: REFUSED[index][2])
def test_a_refusal_is_one_sentence_that_the_assistant_reads(conversation, index):
    answer = conversation["refusals"][index]
    assert answer.is_error
    assert REFUSED[index][2] in answer.content[0].text
    assert answer.structured_content is None


def test_resources_are_the_documents_of_the_command_line(conversation):
    assert conversation["resources"][:2] == ["capplan://gpus", "capplan://prices"]
    assert conversation["templates"] == ["capplan://gpus/{gpu}", "capplan://answers/{tool}{?arguments*}"]
    assert conversation["contents"] == [
        command("gpus", "--format", "json"),
        command("prices", "--format", "json"),
        command("gpus", "show", "l4", "--format", "json"),
        (EXAMPLES.parent / "docs" / "tutorials" / "which-gpu.md").read_text(),
    ]


def test_pages_of_the_documentation_are_resources(conversation):
    pages = {uri.removeprefix("capplan://docs/") for uri in conversation["resources"][2:]}
    folder = EXAMPLES.parent / "docs"
    left_out = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")} - pages
    assert len(pages) >= 40
    assert {name for name in left_out if not name.startswith(("decisions/", "reference/cli"))} == {
        "changelog",
        "contributing",
        "conventions",
        "recipes",
        "reference/python",
        "where",
    }


def test_prompts_are_filled_in_and_name_tools_that_exist(conversation):
    assert [prompt.name for prompt in conversation["prompts"]] == list(PROMPTS)
    assert "train the model hf:bert on 1000 samples for 1 epochs at batch 32" in conversation["prompt"]
    assert "{" not in conversation["prompt"]
    tools = {*asked_by_tool(), "ask"}
    fields = {field.wire for path in ("plan", "llm plan") for field in find_verb(path).fields_at(Door.HTTP)}
    named = {word for prompt in PROMPTS.values() for word in re.findall(r"`(\w+)`", prompt.text)}
    assert {"plan", "llm_plan", "train"} <= named <= tools | fields


def test_what_is_not_there_is_said_with_the_nearest_name(conversation):
    tool, gpu, file, argument = conversation["errors"]
    assert "unknown tool 'plans'; did you mean plan" in tool
    assert "unknown GPU 'l5'" in gpu
    assert "unknown resource 'file:///etc/passwd'" in file
    assert "'samples' is missing" in argument


def test_a_long_text_is_cut_at_the_end_of_a_line():
    table = "\n".join(f"row {index}" for index in range(1000))
    text = short_text(Reply(content=b"", media_type="", text=table, warning="Old prices."), whole="capplan plan x")
    assert len(text) <= LONGEST_TEXT
    body, cut, warning, whole = text.split("\n\n")
    assert table.startswith(body + "\n")
    assert (cut.startswith("[cut here"), warning, whole) == (True, "Old prices.", "capplan plan x")


def test_a_client_that_starts_the_command_gets_answers_over_standard_output(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    started = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "capplan", "mcp", "--text-only"], env=environment
    )

    async def talk() -> tuple[Any, Any]:
        async with mcp.Client(mcp.stdio_client(started)) as client:
            listed = await client.list_tools()
            return listed.tools, await client.call_tool("llm_memory", QUESTIONS["llm_memory"][0])

    listed, answer = asyncio.run(talk())
    assert listed
    assert not answer.is_error
    assert answer.structured_content is None
    assert "capplan llm memory" in answer.content[0].text


def test_without_the_sdk_the_command_says_what_to_install(tmp_path):
    (tmp_path / "mcp_types.py").write_text("raise ModuleNotFoundError('none', name='mcp_types')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-m", "capplan", "mcp"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "capplan: mcp needs mcp_types; install it with pip install 'capplan[mcp]'.\n"


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.nightly
def test_a_signal_ends_the_command_while_it_waits_for_its_client(tmp_path, sent, status):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with subprocess.Popen(
        [sys.executable, "-m", "capplan", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(first) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "capplan"
        process.send_signal(sent)
        assert process.wait(timeout=LONGEST_S) == status


@asynccontextmanager
async def over_http(address: str, token: str | None = None) -> AsyncIterator[Any]:
    """Connect a client to the endpoint of a service."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        create_mcp_http_client(headers=headers) as sending,
        mcp.Client(streamable_http_client(address, http_client=sending)) as client,
    ):
        yield client


def test_the_service_answers_every_tool_over_http(served, net, words_of):
    async def talk() -> tuple[int, dict[str, Any], Any]:
        async with over_http(f"http://127.0.0.1:{served.port}/mcp") as client:
            listed = len((await client.list_tools()).tools)
            answers = {}
            for tool, (arguments, _) in QUESTIONS.items():
                asked = {name: net if value == "NET" else value for name, value in arguments.items()}
                answers[tool] = await client.call_tool(*as_listed(tool, asked))
        async with over_http(f"http://127.0.0.1:{served.port}/mcp/text") as client:
            return listed, answers, await client.call_tool("llm_memory", QUESTIONS["llm_memory"][0])

    listed, answers, text_only = asyncio.run(talk())
    assert listed == MOST_TOOLS
    for tool, answer in answers.items():
        assert not answer.is_error, answer.content[0].text
        document = json.loads(command(*words_of(tool), "--format", "json"))
        link = re.search(r"^The whole answer: http://127.0.0.1:\d+(\S+)$", answer.content[0].text, re.MULTILINE)
        if tool == "llm_fleet":  # a fleet needs a body
            assert link is None
        else:
            assert served.get(link[1]).json == document, tool
    assert text_only.structured_content is None
    assert "The whole answer: http" in text_only.content[0].text


@pytest.mark.nightly
def test_assistants_stand_behind_the_guard(tmp_path):
    token = "a-long-token-of-the-test"
    (tmp_path / "token").write_text(token)

    async def names(address: str, given: str | None) -> int:
        async with over_http(address, given) as client:
            return len((await client.list_tools()).tools)

    with serving(tmp_path / "service", "--token-file", str(tmp_path / "token"), "--traces", "0") as guarded:
        address = f"http://127.0.0.1:{guarded.port}/mcp"
        assert asyncio.run(names(address, token)) == MOST_TOOLS
        hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        assert guarded.post("/mcp", hello).status == 401
        allowed = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        assert guarded.ask("POST", "/mcp", hello, {**allowed, "Host": "evil.example"}).status == 403
        assert guarded.ask("POST", "/mcp", hello, {**allowed, "Origin": "http://evil.example"}).status == 403
        assert guarded.ask("POST", "/mcp", b"x" * (2**20 + 1), allowed).status == 413
        for body in (b"", b"[", b"[]", b"3", b'{"jsonrpc": "2.0"}', b"\xff", json.dumps([hello] * 3).encode()):
            assert guarded.ask("POST", "/mcp", body, allowed).status < 500, body
