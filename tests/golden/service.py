"""What the service answers in this process: descriptions, pages, documents and refusals."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.testclient import TestClient

from capplan.serve.mcp.resources import prompts, resources, templates
from capplan.serve.mcp.tools import tools
from capplan.serve.run import make_application
from capplan.serve.settings import Settings
from capplan.serve.worker_pool import make_planner
from tests.golden.documents import html_text
from tests.golden.world import masked, world


@contextlib.contextmanager
def served() -> Iterator[tuple[TestClient, str]]:
    """Run the service in this process, without processes of its own, and upload the example network.

    Yields:
        a client, and the words that name the network's trace.
    """
    with world() as folder:
        application = make_application(Settings(state=folder / "state"))
        service = application.state.service
        with contextlib.chdir(folder):  # a process that plans leaves the folder that it was started in
            planner = make_planner(service.settings)

        async def ask(task: Any, **_: Any) -> Any:
            return planner(task)

        service.planners.ask = ask
        client = TestClient(application, base_url="http://127.0.0.1", raise_server_exceptions=False)
        kept = client.post("/api/v1/traces", content=Path("net.trace.json.gz").read_bytes())
        assert kept.status_code == 201, kept.text
        yield client, kept.json()["model"]


def to_text(value: Any) -> str:
    """Return JSON for reading."""
    return masked(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _openapi() -> str:
    with served() as (client, _):
        return to_text(client.get("/api/v1/openapi.json").json())


def _assistants() -> str:
    listed = {
        name: [each.model_dump(mode="json", exclude_none=True) for each in found]
        for name, found in (("tools", tools()), ("resources", resources()), ("templates", templates()))
    }
    listed["prompts"] = [each.model_dump(mode="json", exclude_none=True) for each in prompts()]
    assert all(listed.values())
    return to_text(listed)


PAGES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "start": ("/", {}),
    "plan": ("/answer", {"model": "NET", "gpus": "t4,l4", "batch": "8"}),
    "plan-form": ("/", {"model": "NET", "gpus": "t4,l4", "batch": "8", "max_latency": "50ms"}),
    "plan-training": ("/answer", {"model": "NET", "gpus": "l4", "batch": "8", "precision": "fp16", "framework": "compile"}),
    "plan-refused": ("/answer", {"model": "NET", "gpus": "h101", "batch": "8"}),
    "plan-nothing-fits": ("/answer", {"model": "NET", "gpus": "t4", "batch": "100000"}),
    "llm-start": ("/llm", {}),
    "llm-times": ("/llm/answer", {"model": "qwen3-8b", "gpus": "l40s,h100-sxm5-80gb", "concurrency": "8"}),
    "llm-deployments": ("/llm/answer", {"find": "deployments", "model": "qwen3-8b", "gpus": "l40s", "rate": "4", "tp": "1"}),
    "api": ("/api", {}),
}  # fmt: skip
"""Pages by name: where they are, and what is asked there; NET stands for the uploaded network."""


def _page(place: str, asked: Mapping[str, str]) -> str:
    with served() as (client, net):
        question = urlencode({name: net if value == "NET" else value for name, value in asked.items()})
        found = client.get(f"{place}?{question}" if question else place)
        return masked(f"GET {place}?{question}\n[{found.status_code}]\n{html_text(found.text)}")


def _showing(place: str, asked: Mapping[str, str]) -> Callable[[], str]:
    return lambda: _page(place, asked)


ASKED: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("plan", {"model": "NET", "gpus": ["l4"], "batches": [8]}),
    ("plan", {"model": "NET", "gpus": ["h101"]}),
    ("plan", {"model": "NET", "precision": "int3"}),
    ("plan", {"model": "NET", "batches": "8..4"}),
    ("plan", {"model": "NET", "batch": [1], "batches": [2]}),
    ("plan", {"model": "NET", "batchs": [1]}),
    ("plan", {"model": "NET", "where": ["memory >= 999 GiB"]}),
    ("plan", {"model": "NET", "providers": ["nobody"]}),
    ("plan", {"model": "NET", "max_latency": "5 parsecs"}),
    ("plan", {"model": "NET", "max_latency_s": -1}),
    ("plan", {"model": "NET", "accumulate": 3}),
    ("plan", {"model": "NET", "train": True}),
    ("plan", {"model": "NET", "sharding": "zero2"}),
    ("plan", {"model": "NET", "specs": ["here"]}),
    ("plan", {"model": "NET", "sort": "colour"}),
    ("plan", {"model": "NET", "utilization_fraction": 2}),
    ("plan", {"gpus": ["l4"]}),
    ("memory", {"model": "NET", "gpus": ["nope"]}),
    ("memory", {"model": "NET", "shardings": ["zero9"], "gpus": ["l4"]}),
    ("estimate", {"model": "NET", "gpus": ["l4"], "gain": 3}),
    ("report", {"model": "NET", "batches": [8], "regions": ["moon"]}),
    ("report", {"model": "NET", "batches": [8], "load": {"servce": {}}}),
    ("prices", {"max_age_days": -1}),
    ("gpus", {"sort": "colour"}),
    ("llm/plan", {"model": "qwen3-8b"}),
    ("llm/plan", {"model": "qwen3-8b", "rate": 1, "concurrency": 2}),
    ("llm/plan", {"model": "qwen3-9b", "rate": 1}),
    ("llm/plan", {"model": "qwen3-8b", "rate": 1, "kv": "banana"}),
    ("llm/estimate", {"model": "qwen3-8b", "gpu": "l4", "tp": 0}),
    ("llm/memory", {"model": "qwen3-8b"}),
    ("llm/simulate", {"model": "qwen3-8b", "gpu": "l40s", "rates": [-1]}),
    ("llm/train/plan", {"model": "llama-3.1-8b-instruct", "tokens": "x"}),
    ("nothing", {}),
)
"""Questions by their paths, most of which are refused."""


def _answers() -> str:
    with served() as (client, net):
        parts = []
        for path, asked in ASKED:
            question = {name: net if value == "NET" else value for name, value in asked.items()}
            found = client.post(f"/api/v1/{path}", json=question)
            text = found.text if found.status_code >= 400 else to_text(found.json())
            parts.append(f"POST /api/v1/{path} {json.dumps(asked)}\n[{found.status_code}] {text.rstrip()}\n")
        return masked("\n".join(parts))


CASES: Mapping[str, Callable[[], str]] = {
    "service/openapi": _openapi,
    "service/assistants": _assistants,
    "service/answers": _answers,
    **{f"page/{name}": _showing(*page) for name, page in PAGES.items()},
}
"""What makes each answer of the service, by its name."""
