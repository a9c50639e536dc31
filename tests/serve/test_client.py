"""`capplan.Client` and `capplan --server`: the same answers and sentences as on this machine."""

import json
import socket
import threading

import pytest
from typer.testing import CliRunner

import capplan
from capplan.api.client import _seconds
from capplan.cli.main import app
from capplan.errors import UsageError
from tests.serve.conftest import Served, command, sentence

pytestmark = pytest.mark.slow

GPUS = "l4,t4,rtx-4090"


@pytest.fixture
def address(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


def asked(address: str, *words: object) -> str:
    result = CliRunner().invoke(app, ["--server", address, *map(str, words)])
    assert result.exit_code in (0, 1), result.stderr
    return result.stdout


@pytest.mark.parametrize("url", ["http://localhost:abc", "http://", "ftp://host", "http://[::1", "http://host:99999"])
def test_an_address_that_is_none_is_refused_in_a_sentence(url):
    with pytest.raises(UsageError, match="is not the address of a service; write http://HOST:PORT"):
        capplan.Client(url)


def test_a_server_that_does_not_speak_http_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH_9\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(UsageError, match=r"cannot reach the service at .*: SSH-2.0-OpenSSH_9\.$"):
            capplan.Client(f"http://127.0.0.1:{listening.getsockname()[1]}").gpus()
        thread.join()


def test_a_proxy_may_say_the_day_on_which_to_ask_again():
    # RFC 9110, section 10.2.3: Retry-After holds seconds or a date
    assert [_seconds(said) for said in ("7", "Wed, 21 Oct 2026 07:28:00 GMT", None)] == [7.0, 1.0, 1.0]


def test_the_client_returns_the_documents_of_the_command_line(address, net, net_file):
    client = capplan.Client(address)
    plan = client.plan(net, batches=[32], gpus=["l4", "t4"])
    assert plan == json.loads(command("plan", net_file, "--batch", 32, "--gpu", "l4,t4", "--format", "json"))
    memory = client.memory(net, batch=8, gpus=["l4"])
    assert memory == json.loads(command("memory", net_file, "--batch", 8, "--gpu", "l4", "--format", "json"))
    assert client.gpu("l4") == json.loads(command("gpus", "show", "l4", "--format", "json"))
    assert client.prices(gpus=["l4"]) == json.loads(command("prices", "--gpu", "l4", "--format", "json"))
    assert client.report(net, batches=[8], gpus=["l4"], format="pdf").startswith(b"%PDF")
    assert client.health()["status"] == "ok"


def test_the_client_uploads_a_trace_and_asks_about_it(address, net, net_file):
    client = capplan.Client(address)
    assert client.upload(net_file) == net
    assert net in [each["model"] for each in client.traces()]
    trace = capplan.load_trace(net_file)
    assert client.plan(trace, batches=[4], gpus=["l4"]) == client.plan(net, batches=[4], gpus=["l4"])


def test_the_client_raises_the_sentence_of_the_command_line(address, net, net_file):
    with pytest.raises(UsageError, match="unknown GPU 'h101'; did you mean"):
        capplan.Client(address).plan(net, gpus=["h101"])
    with pytest.raises(UsageError, match="cannot reach the service at"):
        capplan.Client("127.0.0.1:9").health()
    with pytest.raises(UsageError, match="is not the address of a service"):
        capplan.Client("ftp://somewhere")


@pytest.mark.parametrize(
    "words",
    [
        "plan {} --batch 32 --precision amp-fp16 --format json",
        "plan {} --batch 1,8 --max-latency 5ms --sort cost",
        "plan {} --batch 8 --format csv",
        "memory {} --batch 8 --format json",
        "estimate {} --batch 1..64 --format json",
        "estimate {} --batch 1..64",
    ],
)
def test_the_command_line_asks_a_service_with_the_same_words(address, net_file, words):
    options = [*words.format(net_file).split(), "--gpu", "l4"]
    assert asked(address, *options) == command(*options)


def test_lists_come_from_the_service(address):
    assert asked(address, "gpus", "--min-memory", "80GiB") == command("gpus", "--min-memory", "80GiB")
    assert asked(address, "prices", "--gpu", "l4", "--json") == command("prices", "--gpu", "l4", "--json")


def test_one_gpu_comes_from_the_service(address):
    for spelling in ("json", "table"):
        words = ["gpus", "show", "l4", "--format", spelling]
        assert asked(address, *words) == command(*words)


@pytest.mark.parametrize(
    "words",
    [
        "llm memory llama-3.1-8b-instruct --gpu l40s --tp 2 --max-len 4096",
        "llm memory qwen3-32b --gpu l4",
        "llm models --where moe=yes",
        "llm models deepseek-v3 --json",
        "llm simulate llama-3.1-8b-instruct --gpu l40s --rate 1,2 --requests 200 --max-ttft 1s --json",
        "llm estimate llama-3.1-8b-instruct --gpu l40s -c 1,16 --input-len 512 --json",
        "llm estimate llama-3.1-8b-instruct --gpu l40s -c 16 --energy --json",
        "llm plan llama-3.1-8b-instruct --gpu l40s --rate 2 --max-tpot 60ms --tp 1 --tp 2 --engine vllm --json",
    ],
)
def test_questions_about_serving_are_answered_as_on_this_machine(address, words):
    result = CliRunner().invoke(app, ["--server", address, *words.split()])
    here = CliRunner().invoke(app, words.split())
    assert (result.exit_code, result.stdout) == (here.exit_code, here.stdout)


def test_a_fleet_file_is_handed_over(address, tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "gpus: [l40s]\nmodels:\n  - {model: llama-3.1-8b-instruct, rate: 2/s}\n  - {model: qwen3-8b, rate: 1/s}\n"
    )
    assert asked(address, "llm", "fleet", path, "--json") == command("llm", "fleet", path, "--json")
    path.write_text("models: [{model: 'hf:folder', rate: 1/s}]\n")
    assert "'hf:folder' is not taken here" in sentence("--server", address, "llm", "fleet", path)


def test_the_client_asks_about_serving(address):
    client = capplan.Client(address)
    asked_of = {"gpu": "l40s", "tp": 2}
    words = ["llama-3.1-8b-instruct", "--gpu", "l40s", "--tp", 2, "--json"]
    memory = client.llm_memory("llama-3.1-8b-instruct", **asked_of)
    assert memory == json.loads(command("llm", "memory", *words))
    found = client.llm_estimate("llama-3.1-8b-instruct", concurrency=[4], **asked_of)
    assert found == json.loads(command("llm", "estimate", *words, "-c", 4))
    plan = client.llm_plan("llama-3.1-8b-instruct", rate=2, gpus=["l40s"], max_tpot="60ms", engines=["vllm"])
    assert plan["recommended"]["gpu"] == "l40s"
    with pytest.raises(UsageError, match="start it with --results"):
        client.results()


@pytest.mark.zoo
def test_a_trace_is_made_by_the_service_as_on_this_machine(address, tmp_path):
    words = ["trace", "torchvision:squeezenet1_1", "--precision", "fp16", "--precision", "amp-fp16"]
    asked(address, *words, "-o", tmp_path / "there.trace.json")
    command(*words, "-o", tmp_path / "here.trace.json.gz")
    there, here = (capplan.load_trace(tmp_path / name) for name in ("there.trace.json", "here.trace.json.gz"))
    assert {str(each.configuration) for each in there.recordings} == {
        str(each.configuration) for each in here.recordings
    }
    assert {each.configuration: each for each in there.recordings} == {
        each.configuration: each for each in here.recordings
    }
    assert there.parameters == here.parameters


def test_a_report_is_written_by_the_service(address, net_file, tmp_path):
    asked(
        address,
        "report",
        net_file,
        "--batch",
        8,
        "--gpu",
        "l4,t4",
        "-o",
        tmp_path / "r.html",
        "-o",
        tmp_path / "r.json",
    )
    assert (tmp_path / "r.html").read_text().lower().startswith("<!doctype html>")
    assert json.loads((tmp_path / "r.json").read_text())


def test_what_only_this_machine_has_is_refused_with_a_service(address, net_file, tmp_path):
    assert "--specs works on this machine only" in sentence("--server", address, "plan", net_file, "--specs", tmp_path)
    assert "run `capplan measure` without it" in sentence("--server", address, "measure", net_file)
    assert "run `capplan prices import` without it" in sentence("--server", address, "prices", "import", tmp_path)
    assert "run `capplan llm fit` without it" in sentence("--server", address, "llm", "fit", tmp_path)
    words = ["llm", "plan", "llama-3.1-8b-instruct", "--rate", 1, "--kubernetes", tmp_path / "fleet.yaml"]
    assert "--kubernetes works on this machine only" in sentence("--server", address, *words)
    assert "no trace" in sentence("--server", address, "plan", "trace:0123456789abcdef")
    refused = sentence("--server", address, "plan", "net.py:Net")
    assert "loading a model runs its code" in refused


def test_a_config_file_is_handed_over(address, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "no-such-architecture"}')
    assert "unknown transformers architecture" in sentence("--server", address, "plan", f"hf:{config}", "--gpu", "l4")


test_a_config_file_is_handed_over = pytest.mark.zoo(test_a_config_file_is_handed_over)
