"""`capplan.Client` and `capplan --server`: the same answers and sentences as on this machine."""

import json

import pytest
from typer.testing import CliRunner

import capplan
from capplan.cli.main import app
from capplan.errors import UsageError
from tests.serve.conftest import Served, command, sentence

GPUS = "l4,t4,rtx-4090"


@pytest.fixture
def address(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


def asked(address: str, *words: object) -> str:
    result = CliRunner().invoke(app, ["--server", address, *map(str, words)])
    assert result.exit_code in (0, 1), result.stderr
    return result.stdout


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
    assert "run `capplan trace` without it" in sentence("--server", address, "trace", net_file)
    assert "run its subcommands without it" in sentence("--server", address, "gpus", "show", "l4")
    refused = sentence("--server", address, "plan", "net.py:Net")
    assert "loading a model runs its code" in refused


def test_a_config_file_is_handed_over(address, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "no-such-architecture"}')
    assert "unknown transformers architecture" in sentence("--server", address, "plan", f"hf:{config}", "--gpu", "l4")


test_a_config_file_is_handed_over = pytest.mark.zoo(test_a_config_file_is_handed_over)
