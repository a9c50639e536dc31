"""The API answers what the command line answers, and refuses what it refuses, in the same sentences."""

import json
import re
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import jsonschema
import pytest
import yaml

from capplan.report.schemas import schema_of
from capplan.serve.page.results import address_of
from tests.seen import at_least
from tests.serve.conftest import EXAMPLES, Answer, Served, command, sentence, serving

pytestmark = pytest.mark.slow

GPUS = ["l4", "t4", "rtx-4090", "h100-sxm5-80gb"]


CARDS = ",".join(GPUS)
PLANS = [
    ({"batches": [32], "precision": "amp-fp16"}, "--batch 32 --precision amp-fp16"),
    ({"batches": "1..64", "max_latency_s": 0.002, "sort": "cost"}, "--batch 1..64 --max-latency 2ms --sort cost"),
    ({"samples": 1000, "epochs": 2}, "--samples 1000 --epochs 2"),
    ({"batches": "max", "framework": "compile", "utilization_fraction": 0.5},
     "--batch max --framework compile --utilization 0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "options"), PLANS)
def test_a_plan_is_the_document_of_the_command_line(served: Served, net, net_file, question, options):
    answer = served.post("/api/v1/plan", {"model": net, "gpus": GPUS, **question})
    assert answer.status == 200, answer.body
    assert answer.body.decode() == command("plan", net_file, "--gpu", CARDS, *options.split(), "--format", "json")


def test_all_gpus_that_pass_a_filter_are_planned(served: Served, net, net_file):
    answer = served.post("/api/v1/plan", {"model": net, "where": ["memory >= 40 GiB"]})
    assert answer.body.decode() == command("plan", net_file, "--where", "memory >= 40 GiB", "--format", "json")


def test_memory_is_the_document_of_the_command_line(served, net, net_file):
    answer = served.post("/api/v1/memory", {"model": net, "batch": 64, "gpus": ["l4", "t4"], "advice": True})
    printed = command("memory", net_file, "--batch", 64, "--gpu", "l4", "--gpu", "t4", "--advice", "--format", "json")
    assert answer.body.decode() == printed


def test_an_estimate_is_the_document_of_the_command_line(served, net, net_file):
    answer = served.post("/api/v1/estimate", {"model": net, "batches": "1..256", "gpus": ["l4", "a100-sxm4-80gb"]})
    printed = command(
        "estimate", net_file, "--batch", "1..256", "--gpu", "l4", "--gpu", "a100-sxm4-80gb", "--format", "json"
    )
    assert answer.body.decode() == printed


def test_gpus_and_prices_are_the_documents_of_the_command_line(served):
    assert served.get("/api/v1/gpus").body.decode() == command("gpus", "--format", "json")
    filtered = served.get("/api/v1/gpus?" + urlencode({"min_memory": "80GiB", "vendor": "NVIDIA", "sort": "-bf16"}))
    assert filtered.body.decode() == command(
        "gpus", "--min-memory", "80GiB", "--vendor", "NVIDIA", "--sort", "-bf16", "--format", "json"
    )
    assert served.get("/api/v1/gpus/l4").body.decode() == command("gpus", "show", "l4", "--format", "json")
    assert served.get("/api/v1/prices?gpu=l4").body.decode() == command("prices", "--gpu", "l4", "--format", "json")


def test_a_report_is_the_document_of_the_command_line_but_for_its_command(served, net, net_file, tmp_path, monkeypatch):
    load = yaml.safe_load((EXAMPLES / "image-service.load.yaml").read_text())
    (tmp_path / "load.yaml").write_text(json.dumps(load))
    monkeypatch.chdir(tmp_path)
    answer = served.post("/api/v1/report", {"model": net, "batches": "1..64", "gpus": GPUS, "load": load})
    assert answer.status == 200, answer.body
    command("report", net_file, "--batch", "1..64", "--gpu", ",".join(GPUS), "--load", "load.yaml", "-o", "r.json")
    ours, theirs = answer.json, json.loads((tmp_path / "r.json").read_text())
    differing = [key for key in theirs if ours.get(key) != theirs[key]]
    assert set(differing) <= {"command", "circumstances", "provenance"}, differing


@pytest.mark.parametrize("extension", ["html", "pdf", "xlsx", "md", "csv", "json"])
def test_a_report_comes_in_all_formats(served, net, extension):
    answer = served.post(f"/api/v1/report?format={extension}", {"model": net, "batches": [8], "gpus": ["l4", "t4"]})
    assert answer.status == 200, answer.body[:300]
    starts = {"html": b"<!doctype html>", "pdf": b"%PDF-", "xlsx": b"PK", "md": b"#", "json": b"{"}
    assert answer.body.lower().startswith(starts.get(extension, b"").lower())
    if extension in ("html", "pdf", "xlsx"):
        assert f"report.{extension}" in answer.headers["content-disposition"]


@pytest.mark.parametrize("spelling", ["table", "csv", "md"])
def test_other_formats_are_those_of_the_command_line(served, net, net_file, spelling):
    answer = served.post(f"/api/v1/plan?format={spelling}", {"model": net, "batches": [8], "gpus": GPUS})
    printed = command("plan", net_file, "--batch", 8, "--gpu", ",".join(GPUS), "--format", spelling)
    assert answer.body.decode() == printed
    media = {"table": "text/plain", "csv": "text/csv", "md": "text/markdown"}[spelling]
    accepted = served.ask("POST", "/api/v1/plan", {"model": net, "batches": [8], "gpus": GPUS}, {"Accept": media})
    assert accepted.body == answer.body


def test_get_answers_as_post_does_and_options_of_the_command_line_are_understood(served, net):
    posted = served.post("/api/v1/plan", {"model": net, "batches": [1, 8], "gpus": ["l4", "t4"], "max_latency": "5ms"})
    got = served.get("/api/v1/plan?" + urlencode({"model": net, "batch": "1,8", "gpu": "l4,t4", "max-latency": "5ms"}))
    assert got.status == 200, got.body
    assert got.body == posted.body


@pytest.mark.parametrize(
    ("path", "question", "words"),
    [
        ("plan", {"gpus": ["h101"]}, ["plan", "--gpu", "h101"]),
        ("plan", {"precision": "int3"}, None),
        ("plan", {"batches": "8..4"}, ["plan", "--batch", "8..4"]),
        ("plan", {"where": ["memory >= 999 GiB"]}, ["plan", "--where", "memory >= 999 GiB"]),
        ("plan", {"providers": ["nobody"]}, ["plan", "--provider", "nobody"]),
        ("plan", {"max_latency": "5 parsecs"}, None),
        ("memory", {"shardings": ["zero9"], "gpus": ["l4"]}, ["memory", "--sharding", "zero9", "--gpu", "l4"]),
        ("memory", {"gpus": ["nope"]}, ["memory", "--gpu", "nope"]),
        ("report", {"batches": [8], "regions": ["moon"]}, ["report", "--batch", "8", "--region", "moon"]),
    ],
)
def test_errors_are_problem_documents_with_the_sentence_of_the_command_line(  # noqa: PLR0917 - fixtures
    served, net, net_file, path, question, words
):
    answer = served.post(f"/api/v1/{path}", {"model": net, **question})
    assert answer.status == 400
    assert answer.json["type"] == "about:blank"
    assert answer.json["exit_code"] == 2
    if words is not None:
        # a sentence names a field as the door spells it
        assert answer.detail.replace("batches '", "--batch '") == sentence(words[0], net_file, *words[1:])


@pytest.mark.parametrize(
    ("path", "question", "said"),
    [
        ("plan", {"model": "resnet50", "train": True, "sharding": "zero1"}, "add train and gpu_count N"),
        ("llm/train/memory", {"model": "qwen3-8b", "gpu": "l4", "ep": 8}, "so ep 8 does nothing"),
        (
            "llm/train/estimate",
            {"model": "qwen3-8b", "gpu": "l4", "mean_len": 9},
            "mean_len, lengths and padded describe samples",
        ),
    ],
)
def test_sentences_name_fields_as_json_does(served, path, question, said):
    assert said in served.post(f"/api/v1/{path}", question).detail


def test_what_cannot_be_read_says_which_field_is_wrong(served, net):
    assert "did you mean batches" in served.post("/api/v1/plan", {"model": net, "batchs": [1]}).detail
    assert (
        "utilization_fraction: expected"
        in served.post("/api/v1/plan", {"model": net, "utilization_fraction": 7}).detail
    )
    assert "JSON" in served.post("/api/v1/plan", b'{"model": ').detail
    assert "not an object" in served.post("/api/v1/plan", [1, 2]).detail
    assert served.post("/api/v1/plan", b"x" * 2_000_000).status == 413
    for kind in ("application/xml", "text/plain"):
        assert served.ask("POST", "/api/v1/plan", b"{}", {"Content-Type": kind}).status == 415
    assert served.get("/api/v1/nothing").status == 404
    assert "is not answered here" in served.ask("DELETE", "/api/v1/plan").detail
    assert served.get("/api/v1/gpus/h101").status == 404


def test_nothing_that_fits_is_an_answer_with_the_exit_code_of_the_command_line(served, net):
    answer = served.post("/api/v1/plan", {"model": net, "batches": [8], "gpus": ["l4"], "max_latency_s": 1e-9})
    assert answer.status == 200
    assert answer.headers["capplan-exit-code"] == "1"
    assert answer.json["fits"] == []


def test_the_same_content_has_the_same_etag_and_is_not_sent_again(served, net):
    question = {"model": net, "batches": [4], "gpus": ["l4"]}
    first = served.post("/api/v1/plan", question)
    again = served.post("/api/v1/plan", dict(reversed(question.items())))
    other = served.post("/api/v1/plan", {**question, "batches": [5]})
    assert first.headers["etag"] == again.headers["etag"] != other.headers["etag"]
    path = "/api/v1/plan?" + urlencode({"model": net, "batch": 4, "gpu": "l4"})
    assert served.get(path).headers["etag"] == first.headers["etag"]
    kept = served.get(path, If_None_Match=first.headers["etag"])
    assert (kept.status, kept.body) == (304, b"")
    assert served.get(path, If_None_Match='"other"').status == 200


def test_openapi_describes_questions_and_documents(served, net):
    document = served.get("/api/v1/openapi.json").json
    assert document["openapi"].startswith("3.1")
    paths = {f"/api/v1/{name}" for name in ("plan", "memory", "estimate", "gpus", "prices", "traces", "report")}
    assert paths <= set(document["paths"])
    text = json.dumps(document)
    components = document["components"]["schemas"]
    named = at_least(50, set(re.findall(r'"#/components/schemas/([^"]+)"', text)))
    assert set(named) <= set(components)
    question = {"model": net, "batches": [32], "precision": "amp-fp16", "gpus": ["l4"]}

    def check(instance: object, reference: dict) -> None:
        jsonschema.validate(instance, {**reference, "components": document["components"]})

    asked = document["paths"]["/api/v1/plan"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    check(question, asked)
    with pytest.raises(jsonschema.ValidationError):
        check({"model": net, "batchs": 1}, asked)
    answered = document["paths"]["/api/v1/plan"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    check(served.post("/api/v1/plan", question).json, answered)


def test_answers_keep_their_schemas(served, net):
    for name, question in (("plan", {"gpus": ["l4"]}), ("memory", {"gpus": ["l4"]}), ("estimate", {"gpus": ["l4"]})):
        schema = schema_of(name)
        jsonschema.validate(served.post(f"/api/v1/{name}", {"model": net, **question}).json, schema)


def test_an_uploaded_trace_is_listed_and_given_back(served, net, net_file):
    trace_id = net.removeprefix("trace:")
    listed = served.get("/api/v1/traces").json["traces"]
    assert trace_id in [each["id"] for each in listed]
    assert served.get(f"/api/v1/traces/{trace_id}").json == json.loads(net_file.read_text())
    again = served.post("/api/v1/traces", net_file.read_bytes())
    assert again.json["id"] == trace_id
    assert served.get("/api/v1/traces/0000000000000000").status == 404


def test_a_damaged_trace_is_refused_in_one_sentence(served, net_file):
    damaged = net_file.read_text().replace("conv", "kernel", 1)
    answer = served.post("/api/v1/traces", damaged.encode())
    assert answer.status == 400
    assert "was changed after it was written" in answer.detail
    assert served.post("/api/v1/traces", b"\x80\x04\x95pickle").status == 400


def whole(served: Served, question: dict) -> Answer:
    """Return the answer to a plan once what it remarks has been traced, too."""
    end_s = time.monotonic() + 500
    while True:
        answer = served.post("/api/v1/plan", question)
        assert answer.status == 200, answer.body
        if "capplan-partial" not in answer.headers:
            return answer
        assert time.monotonic() < end_s
        time.sleep(0.2)


@pytest.mark.zoo
def test_a_zoo_model_is_traced_and_answered_as_the_command_line_does(served):
    question = {"model": "torchvision:squeezenet1_1", "batches": [32], "precision": "amp-fp16", "gpus": ["l4"]}
    answer = whole(served, question)
    printed = command(
        "plan", "torchvision:squeezenet1_1", "--batch", 32, "--precision", "amp-fp16", "--gpu", "l4", "--format", "json"
    )
    assert answer.body.decode() == printed


@pytest.mark.zoo
def test_a_backbone_is_frozen_by_the_service_as_by_the_command_line(served, net):
    question = {"model": "torchvision:squeezenet1_1", "batches": [8], "train": True, "freeze": ["features.*"]}
    words = ["torchvision:squeezenet1_1", "--batch", 8, "--train", "--freeze", "features.*", "--gpu", "l4"]
    answer = whole(served, {**question, "gpus": ["l4"]})
    assert answer.body.decode() == command("plan", *words, "--format", "json")
    refused = served.post("/api/v1/plan", {"model": net, "freeze": ["features.*"], "gpus": ["l4"]})
    assert refused.status == 400
    assert "is a trace: its arguments and inputs are fixed" in refused.detail


@pytest.mark.zoo
def test_a_pasted_config_is_answered_as_its_file_is(served, tmp_path, monkeypatch):
    config = {
        "model_type": "bert", "_name_or_path": "someone/tiny-bert", "architectures": ["BertForMaskedLM"],
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100,
    }  # fmt: skip
    (tmp_path / "tiny-bert").mkdir()
    (tmp_path / "tiny-bert" / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    answer = whole(served, {"config": config, "seq_len": 16, "batches": [4], "gpus": ["l4"]})
    printed = command(
        "plan", "hf:tiny-bert/config.json", "--seq-len", 16, "--batch", 4, "--gpu", "l4", "--format", "json"
    )
    assert answer.json == json.loads(printed)


LLM = "--gpu l40s --tp 2"


@pytest.mark.parametrize(
    ("path", "question", "words"),
    [
        ("memory", {"gpu": "l40s", "tp": 2, "max_len": 4096}, f"{LLM} --max-len 4096"),
        ("estimate", {"gpu": "l40s", "tp": 2, "concurrency": "1..32"}, f"{LLM} --concurrency 1..32"),
        ("plan", {"gpus": ["l40s"], "rate": 4, "max_tpot": "60ms"}, "--gpu l40s --rate 4 --max-tpot 60ms"),
    ],
)
def test_questions_about_serving_are_the_documents_of_the_command_line(served, path, question, words):
    answer = served.post(f"/api/v1/llm/{path}", {"model": "llama-3.1-8b-instruct", **question})
    assert answer.status == 200, answer.body
    printed = command("llm", path, "llama-3.1-8b-instruct", *words.split(), "--format", "json")
    assert answer.json == json.loads(printed)


@pytest.mark.parametrize("model", ["hf:org/name", "/etc/passwd", "../x.gguf", "", "a/b"])
def test_language_models_are_names_of_the_catalogue_only(served, model):
    assert "is not taken here" in served.post("/api/v1/llm/memory", {"model": model, "gpu": "l4"}).detail


def test_the_deployment_example_starts_the_service_with_options_that_there_are():
    documents = list(yaml.safe_load_all((EXAMPLES / "serve" / "kubernetes.yaml").read_text()))
    assert [each["kind"] for each in documents] == ["Deployment", "Service", "NetworkPolicy"]
    (container,) = documents[0]["spec"]["template"]["spec"]["containers"]
    known = command("serve", "--help")
    options = [each for each in container["args"] if each.startswith("--")]
    at_least(2, options)
    assert [each for each in options if each not in known] == []
    image = (EXAMPLES.parent / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", image, re.MULTILINE)
    assert all((EXAMPLES.parent / name).exists() for line in at_least(1, copied) for name in line.split())


OWN_PRICES = """\
provider: our-colo
currency: USD
date: 2026-11-01
date_is: stated
tier: quoted
sources:
  page: {kind: secondary, title: our own quote, url: "https://example.com/quote", retrieved: 2026-11-01}
hourly:
  - {gpu: l4, instance: one, gpus: 1, pricing: on-demand, region: here, per_hour: 0.0123, source: page}
"""


@pytest.fixture(scope="module")
def equipped(net_file, tmp_path_factory) -> Iterator[Served]:
    """A service that traces nothing, with own prices and the results of a sweep."""
    pytest.importorskip("duckdb", reason="needs duckdb: pip install '.[sweep]'")
    folder = tmp_path_factory.mktemp("equipped")
    (folder / "own.yaml").write_text(OWN_PRICES)
    sweep = {"models": [str(net_file)], "gpus": ["l4", "t4"], "workloads": [{"batch": [1, 8]}]}
    (folder / "sweep.yaml").write_text(json.dumps(sweep))
    command("sweep", folder / "sweep.yaml", "-o", folder / "results")
    options = ("--traces", "0", "--prices", str(folder / "own.yaml"), "--results", str(folder / "results"))
    with serving(folder / "served", *options, CAPPLAN_CACHE=str(folder / "traces")) as running:
        yield running


def test_results_of_a_sweep_are_offered(equipped):
    rows = equipped.get("/api/v1/results?ask=fits").json["rows"]
    assert {(each["gpu"], each["batch"]) for each in rows} == {("l4", 1), ("l4", 8), ("t4", 1), ("t4", 8)}
    assert {each["gpu"] for each in equipped.get("/api/v1/results?ask=fits&gpu=l4").json["rows"]} == {"l4"}
    table = equipped.get("/api/v1/results?ask=fits&format=table").body.decode()
    assert table.split()[0] == "model"
    assert equipped.get("/api/v1/results?ask=fits&format=csv").body.decode().startswith("model,")
    assert "write letters of a name" in equipped.get("/api/v1/results?gpu=%27%20OR%201").detail
    assert equipped.get("/api/v1/results?ask=fits&workload=training").json["rows"] == []
    page = equipped.get("/results?ask=fastest").body.decode()
    assert "capplan query results fastest --limit 200" in page
    assert f"  results  http://127.0.0.1:{equipped.port}/results, of the sweep in" in equipped.greeting()
    assert "highest throughput" in page
    assert 'href="/results"' in equipped.get("/").body.decode()


def test_a_service_without_results_says_how_they_are_offered(served, tmp_path):
    assert "start it with --results" in served.get("/api/v1/results").detail
    assert sentence("serve", "--results", tmp_path)


@pytest.mark.parametrize(
    ("row", "link"),
    [
        ({"model": "torchvision:resnet18", "gpu": "l4", "batch": 8, "precision": "amp-fp16", "framework": "eager"},
         "/?model=torchvision%3Aresnet18&batch=8&gpus=l4&precision=amp-fp16"),
        ({"model": "llm:qwen3-32b", "gpu": "l4", "batch": 8, "framework": "sglang"},
         "/llm?model=qwen3-32b&gpus=l4&engine=sglang"),
        ({"model": "/srv/net.trace.json", "gpu": "l4", "batch": 8}, ""),
        ({"model": "net.py:Net", "gpu": "l4", "batch": 8}, ""),
    ],
)  # fmt: skip
def test_rows_of_a_sweep_link_to_the_page_about_their_model(row, link):
    assert address_of(row) == link


def test_own_prices_are_laid_over_the_built_in_ones(equipped, net_file, tmp_path):
    refused = equipped.post("/api/v1/plan", {"model": "torchvision:squeezenet1_1", "gpus": ["l4"]})
    assert refused.status == 422
    assert "traces no models (--traces 0): upload a trace" in refused.detail
    model = equipped.post("/api/v1/traces", net_file.read_bytes()).json["model"]
    (fit,) = equipped.post("/api/v1/plan", {"model": model, "batches": [8], "gpus": ["l4"]}).json["fits"]
    assert (fit["rent"]["provider"], fit["rent"]["usd_per_hour"]) == ("our-colo", 0.0123)
    assert "our-colo" in {each.get("provider") for each in equipped.get("/api/v1/prices?gpu=l4").json["prices"]}
    (tmp_path / "bad.yaml").write_text("hourly: 7")
    assert "bad.yaml" in sentence("serve", "--port", 0, "--prices", tmp_path / "bad.yaml")


def test_onnx_and_exported_files_are_read_as_data_with_the_answer_of_the_command_line(served, tmp_path, monkeypatch):
    import onnx
    import torch

    monkeypatch.chdir(tmp_path)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 256, 3)).eval()
    batch = torch.export.Dim("batch", min=1, max=4096)
    made = torch.export.export(module, (torch.zeros(2, 3, 64, 64),), dynamic_shapes=({0: batch},))
    torch.export.save(made, "net.pt2")
    weight = onnx.numpy_helper.from_array(module[2].weight.detach().numpy(), "w")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 64, 32, 32])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 256, 30, 30])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Conv", ["x", "w"], ["y"])], "g", [value], [out], [weight])
    onnx.save(onnx.helper.make_model(graph), "net.onnx")
    server = f"http://127.0.0.1:{served.port}"
    for name in ("net.pt2", "net.onnx"):
        content = (tmp_path / name).read_bytes()
        (served.log.parent / name).write_bytes(
            content
        )  # where the service was started: what it finds there is no model
        kept = served.post(f"/own?name={name}", content).json
        assert kept == served.post(f"/api/v1/models?name={name}", content).json
        assert kept["model"].startswith("file:")
        expected = json.loads(command("plan", name, "--batch", 4, "--gpu", "l4", "--format", "json"))
        found = served.post("/api/v1/plan", {"model": kept["model"], "batches": [4], "gpus": ["l4"]}).json
        assert found["fits"] == expected["fits"]
        assert {**found["model"], "target": ""} == {**expected["model"], "target": ""}
        asked = command("--server", server, "plan", name, "--batch", 4, "--gpu", "l4", "--format", "json")
        assert json.loads(asked) == found
        stored = next((served.log.parent / "cache").rglob(f"{kept['model'].removeprefix('file:')}.*"))
        assert stored.stat().st_size < len(content) / 4, "weights are not kept"


@pytest.mark.parametrize(
    "content",
    [
        b"\x08\x07" + b"\xff" * 100,
        b"PK\x03\x04" + b"x" * 100,
        b"\x08",
        b"PK\x03\x04",
        b"",
        b"nothing known",
        b"\x80\x04\x95",
    ],
    ids=["onnx", "zip", "one byte", "zip head", "empty", "text", "pickle"],
)
def test_damaged_files_are_refused_in_one_sentence(served, content):
    refused = served.post("/own", content)
    assert refused.status == 400
    assert "\n" not in refused.detail
    assert "/spool/" not in refused.detail, "no path of the service is told"


def test_downloads_are_named_by_what_is_asked_of_which_model_and_compressed(served):
    answer = served.get("/api/v1/llm/models?format=csv&download=1", Accept_Encoding="gzip")
    assert 'filename="capplan-llm-models.csv"' in answer.headers["content-disposition"]
    assert answer.headers["content-encoding"] == "gzip"
    named = served.get("/api/v1/llm/memory?model=llama-3.1-8b&gpu=l4&format=json&download=1")
    assert 'filename="capplan-llm-memory-llama-3.1-8b.json"' in named.headers["content-disposition"]


def test_the_page_about_the_api_lists_every_path_with_its_fields(served):
    page = served.get("/api").body.decode()
    document = served.get("/api/v1/openapi.json").json
    assert all(f"<code>{path}</code>" in page for path in document["paths"])
    assert "<code>max_latency_s</code>" in page
    assert {"200", "503"} == set(document["paths"]["/healthz"]["get"]["responses"])
    assert "/metrics" in document["paths"]
