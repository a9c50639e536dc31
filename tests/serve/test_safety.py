"""What the service refuses: code, files, strangers, other origins, and requests without end."""

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.requests import Request

from capplan.errors import UsageError
from capplan.serve.http.bodies import GoneError, read_body
from capplan.serve.planning.files import Uploads
from capplan.serve.planning.naming import checked_arguments, checked_config, checked_pipeline, model_request
from capplan.serve.settings import ServiceLimits, Settings
from capplan.verbs.statement.fields import ModelFields
from capplan.verbs.statement.options import Door, fields_of
from capplan.verbs.statement.read import changed_fields
from tests.serve.conftest import EXAMPLES, LONGEST_S, Served, sentence, serving
from tests.serve.processes import cpu_s

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "words",
    [
        "net.py:Net", "/etc/passwd", "../net.trace.json", "os:system", "package.module:Name", "hf:/tmp/config.json",
        "hf:../x", "hf:org/name", "file:///etc/passwd", "https://example.org/m.json", "x.pt", "x.pkl", "x.onnx",
        "model.trace.json", "torchvision:../x", "timm:hf-hub:org/name", "resnet50\x00", "a" * 200, "", "  ", "$(id)",
        "builtins:eval", "torchvision:resnet50.pth", "hf:..", ".", "trace:../../etc/passwd", "config:../x",
    ],
)  # fmt: skip
def test_only_names_of_libraries_are_taken(served: Served, words: str):
    answer = served.post("/api/v1/plan", {"model": words, "gpus": ["l4"]})
    assert answer.status == 400, answer.body
    assert "Traceback" not in answer.detail


@pytest.mark.parametrize("model", ["resnet50", None])
def test_a_load_that_names_code_runs_none(served: Served, model: str | None):
    service = {"name": "one", "model": "antigravity:Net", "service": {"peak": "1/s", "latency": "1s"}}
    body = {"batches": [1], "gpus": ["l4"], "load": {"services": [service]}, **({"model": model} if model else {})}
    answer = served.post("/api/v1/report", body)
    assert answer.status == 400, answer.body
    assert "antigravity" not in answer.detail or "names code" in answer.detail


@pytest.mark.parametrize(
    "arguments",
    [
        {"checkpoint_path": "/tmp/x.pth"}, {"weights": "DEFAULT"}, {"pretrained": True}, {"pretrained_cfg": {"x": 1}},
        {"cache_dir": "/tmp"}, {"block": "a/b"}, {"__class__": 1}, {"a b": 1}, {"text": "x" * 5000}, {"x": "model.pkl"},
        {"pretrained_cfg_overlay": {"url": "http://example.org"}}, {"n": 2**70},
    ],
)  # fmt: skip
def test_arguments_that_load_something_are_refused(arguments):
    with pytest.raises(UsageError):
        checked_arguments(arguments)


def test_plain_arguments_are_taken():
    given = {"num_classes": 10, "drop_rate": 0.1, "depths": [1, 2], "act_layer": "gelu", "text_config.num_layers": 2}
    asked = model_request(ModelFields(model="resnet50", arguments=given))
    assert asked.arg == (
        "num_classes=10", "drop_rate=0.1", "depths=[1, 2]", "act_layer=gelu", "text_config.num_layers=2",
    )  # fmt: skip


def test_a_config_loses_what_names_code_and_is_refused_where_it_names_files():
    config = {
        "model_type": "bert", "auto_map": {"AutoModel": "evil.Model"}, "_name_or_path": "org/name",
        "attn_implementation": "org/kernel", "id2label": {"0": "a/b"}, "transformers_version": "4.50", "hidden_size": 8,
    }  # fmt: skip
    kept = json.loads(checked_config(config))
    assert kept == {"model_type": "bert", "id2label": {"0": "a/b"}, "hidden_size": 8}
    for bad in ({"backbone_kwargs": {"checkpoint_path": "/x.pth"}}, {"vision_config": {"weights_path": "a/b"}}):
        with pytest.raises(UsageError, match="names something to load"):
            checked_config({"model_type": "detr", **bad})
    for bad in ({}, {"model_type": "a/b"}, {"model_type": 1}):
        with pytest.raises(UsageError, match="model_type"):
            checked_config(bad)


def test_deep_and_long_data_is_refused():
    deep: dict = {"model_type": "bert"}
    inner = deep
    for _ in range(20):
        inner["x"] = {}
        inner = inner["x"]
    with pytest.raises(UsageError, match="nested"):
        checked_config(deep)
    with pytest.raises(UsageError, match="values"):
        checked_config({"model_type": "bert", "x": list(range(200_000))})


@pytest.mark.zoo
def test_a_class_named_in_a_config_is_not_looked_up(served):
    config = {
        "model_type": "bert", "architectures": ["Trainer", "pipeline", "AutoModel"], "hidden_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100,
    }  # fmt: skip
    answer = served.post("/api/v1/plan", {"config": config, "seq_len": 8, "batches": [2], "gpus": ["l4"]})
    assert answer.status == 200, answer.body
    assert answer.json["model"]["class"] == "BertModel"


GUARDED = """
import pickle, subprocess, socket, sys, tempfile, os
sys.path.insert(0, {root!r})
from capplan.errors import UsageError
from capplan.serve.tracing import child
os.chdir({folder!r})
child._narrow({folder!r})
def tries():
    yield lambda: pickle.loads(pickle.dumps(UsageError))
    yield lambda: subprocess.run(["true"])
    yield lambda: os.system("true")
    yield lambda: socket.create_connection(("127.0.0.1", 9))
    yield lambda: open("/tmp/written-by-a-model", "w")
    yield lambda: os.remove({folder!r})
refused = 0
for each in tries():
    try:
        each()
    except UsageError:
        refused += 1
open("inside", "w").close()
print(refused)
"""


def test_a_tracing_process_may_not_unpickle_start_connect_or_write(tmp_path):
    script = GUARDED.format(root=str(EXAMPLES.parent), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=LONGEST_S)
    assert done.stdout.strip() == "6", done.stderr


def test_names_of_the_service_only(served):
    good = {"Host": f"127.0.0.1:{served.port}"}
    assert served.ask("GET", "/healthz", headers=good).status == 200
    assert served.ask("GET", "/healthz", headers={"Host": "localhost"}).status == 200
    for host in ("example.org", "127.0.0.1.example.org", "evil:8000", ""):
        assert served.ask("GET", "/api/v1/gpus", headers={"Host": host}).status == 403, host


def test_pages_of_other_origins_may_not_ask(served, net):
    own = f"http://127.0.0.1:{served.port}"
    question = {"model": net, "gpus": ["l4"]}
    assert served.post("/api/v1/plan", question, Origin=own).status == 200
    for origin in ("http://example.org", "null", "http://127.0.0.1:1", "https://evil.example"):
        refused = served.post("/api/v1/plan", question, Origin=origin)
        assert refused.status == 403, origin
        assert "access-control-allow-origin" not in refused.headers
    assert served.ask("GET", "/api/v1/gpus", headers={"Sec-Fetch-Site": "cross-site"}).status == 403


def test_answers_carry_headers_that_bind_the_browser(served):
    headers = served.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe-inline" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_binding_beyond_loopback_needs_a_token_or_consent(tmp_path):
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        with pytest.raises(UsageError, match="--token-file"):
            Settings(host=host, state=tmp_path)
    for given in (
        {"host": "0.0.0.0", "token": "x" * 20},
        {"host": "0.0.0.0", "is_insecure": True},
        {"host": "127.0.0.2"},
    ):
        Settings(state=tmp_path, **given)
    assert "can be reached from other machines" in sentence("serve", "--host", "0.0.0.0")
    (tmp_path / "short").write_text("abc")
    assert "holds no token" in sentence("serve", "--token-file", tmp_path / "short")
    assert "cannot be read" in sentence("serve", "--token-file", tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    assert "it is a pipe and not a file" in sentence("serve", "--token-file", tmp_path / "pipe")


def test_a_token_is_asked_for(tmp_path):
    (tmp_path / "token").write_text("correct-horse-battery-staple\n")
    options = ("--traces", "0", "--host", "0.0.0.0", "--token-file", str(tmp_path / "token"))
    with serving(tmp_path / "served", *options) as running:
        refused = running.get("/api/v1/gpus")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert running.get("/metrics").status == 401
        assert running.get("/healthz").status == 200
        assert running.get("/api/v1/gpus", Authorization="Bearer wrong").status == 401
        assert running.get("/api/v1/gpus", Authorization="Bearer correct-horse-battery-staple").status == 200
        page = running.get("/", Accept="text/html")
        assert (page.status, page.headers["location"]) == (303, "/login")
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        wrong = running.ask("POST", "/login", b"token=wrong", form)
        assert wrong.status == 401
        right = running.ask("POST", "/login", b"token=correct-horse-battery-staple", form)
        assert right.status == 303
        assert "HttpOnly" in right.headers["set-cookie"]
        cookie = right.headers["set-cookie"].partition(";")[0]
        assert running.get("/", Cookie=cookie).status == 200
        assert "correct-horse" not in cookie
        assert "Secure" not in right.headers["set-cookie"]
        behind = running.ask(
            "POST", "/login", b"token=correct-horse-battery-staple", {**form, "X-Forwarded-Proto": "https"}
        )
        assert "Secure" in behind.headers["set-cookie"]
        name, _, value = cookie.partition("=")
        until, _, digest = value.partition(".")
        later = f"{name}={int(until) + 1}.{digest}"
        for forged in (later, f"{name}=9999999999.", f"{name}={until}", f"{name}=correct-horse-battery-staple"):
            assert running.get("/api/v1/gpus", Cookie=forged).status == 401


def test_logs_are_json_without_what_was_asked(served, net):
    secret = "ZZsecretZZ"
    served.get(f"/?model={secret}&gpus=l4")
    served.post("/api/v1/plan", {"model": secret, "config": {"model_type": secret}})
    served.post("/api/v1/traces", json.dumps({"format": secret}).encode())
    served.get(f"/api/v1/gpus/{secret}")
    served.get("/healthz")  # the line of a request is written after its answer, so before the next one's
    log = served.log.read_text()
    assert secret not in log
    rows = [json.loads(line) for line in log.splitlines()]
    asked = [row for row in rows if row["event"] == "request"]
    assert {"time", "level", "id", "method", "route", "status", "seconds", "client"} <= set(asked[0])
    assert "/api/v1/gpus/{gpu}" in {row["route"] for row in asked}


def test_bodies_are_bounded_whatever_they_say_of_their_length(served):
    assert served.ask("POST", "/api/v1/plan", b"{}", {"Content-Length": "99999999999"}).status == 413
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=LONGEST_S)
    chunks = (b" " * 65_536 for _ in range(400))
    try:
        connection.request("POST", "/api/v1/plan", chunks, encode_chunked=True)
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # the service has answered and closed before all was sent
    connection.close()
    assert status == 413
    bomb = __import__("gzip").compress(b" " * 50_000_000)
    assert served.ask("POST", "/api/v1/plan", bomb, {"Content-Encoding": "gzip"}).status == 413


@pytest.mark.skipif(sys.platform != "linux", reason="the time of a process is read in /proc")
def test_the_service_answers_while_a_hostile_upload_is_read(served):
    """400,000 empty gzip members once held the event loop for 50 s."""
    members = __import__("gzip").compress(b"") * 400_000
    began_s = cpu_s(served)
    assert served.ask("POST", "/api/v1/traces", members).status == 400
    assert served.get("/healthz").status == 200
    assert cpu_s(served) - began_s < 20


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(served):
    """A proxy that goes by Content-Length takes what follows the empty chunk for a part of this body."""
    request = (
        b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONGEST_S) as raw:
        raw.sendall(request)
        answer = b""
        while piece := raw.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert answer.count(b"HTTP/1.1 ") == 1, answer


def test_an_argument_that_is_an_object_is_refused(served):
    answer = served.post("/api/v1/plan", {"model": "torchvision:alexnet", "arguments": {"progress": {"a": 1}}})
    assert (answer.status, "holds an object" in answer.detail) == (400, True)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "bert", "num_hidden_layers": 100_000}, "100,000; at most 4,096 layers"),
        ({"model_type": "resnet", "depths": [100_000, 3, 4, 3]}, "100,010; at most 4,096 layers"),
        ({"model_type": "bert", "num_hidden_layers": "x"}, "expected int, got str"),
    ],
)
def test_a_config_of_endless_layers_is_refused_in_a_sentence(served, config, told):
    answer = served.post("/api/v1/plan", {"config": config, "inputs": ["input_ids=int64:128"]})
    assert answer.status in (400, 422), answer
    assert told in answer.detail
    assert len(answer.detail) <= 300


HOSTILE_LINES = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"FOO /" + b"%00" * 50 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("line", HOSTILE_LINES)
def test_broken_http_is_refused_and_the_service_lives(served, line):
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONGEST_S) as raw:
        raw.sendall(line)
        raw.shutdown(socket.SHUT_WR)
        answer = raw.recv(4096)
    assert not answer.startswith(b"HTTP/1.1 5"), answer
    assert served.get("/healthz").status == 200


HOSTILE_VALUES = [
    "\ud800",
    2**70,
    1e308,
    [[]],
    {"a": {}},
    [None] * 1000,
    "x" * 10_000,
    True,
    "1..99999999999999999999",
    -1,
]


@pytest.mark.parametrize(
    "field", ["batches", "gpus", "precision", "where", "arguments", "inputs", "load", "config", "freeze", "no"]
)
def test_no_value_of_any_field_is_answered_with_a_bug(served, net, field):
    for value in HOSTILE_VALUES:
        for path in ("plan", "memory", "estimate", "report"):
            answer = served.post(f"/api/v1/{path}", {"model": net, "gpus": ["l4"], field: value})
            assert answer.status < 500, (path, value, answer.body)


@pytest.mark.parametrize(
    "field", ["hidden_size", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("batches", "config", "no"))]
)
def test_no_value_of_a_pasted_config_is_answered_with_a_bug(served, field):
    for value in HOSTILE_VALUES:
        answer = served.post("/api/v1/plan", {"config": {"model_type": "no-such-type", field: value}})
        assert answer.status < 500, (value, answer.body)


def test_pipelines_of_capplan_are_taken_and_files_are_not():
    assert checked_pipeline("pipeline:whisper-small") == "pipeline:whisper-small"
    for words in ("pipeline:../secret", "pipeline:", "mine.pipeline.yaml", "whisper-small"):
        with pytest.raises(UsageError, match="name a published pipeline"):
            checked_pipeline(words)


def test_the_service_opens_a_model_with_every_option_that_a_request_may_state():
    given = ModelFields(
        model="hf:bert", arguments={"num_labels": 3}, inputs=("x=3x8x8",), input_size="3x8x8", seq_len=8,
        freeze=("a.*",), selected_share=0.5, as_cpu=True, grad=True, new_tokens=4,
    )  # fmt: skip
    apart = {"model", "config", "weights", "activations"}
    assert {field.name for field in changed_fields(given, door=Door.HTTP)} | apart == {
        field.name for field in fields_of(ModelFields) if field.option.doors & Door.HTTP
    } | apart
    assert set(model_request(given).options) == {
        "--arg", "num_labels=3", "--input", "x=3x8x8", "--input-size", "3x8x8", "--seq-len", "8", "--freeze", "a.*",
        "--selected-share", "0.5", "--as-cpu", "--grad", "--new-tokens", "4",
    }  # fmt: skip


@pytest.mark.parametrize("option", [{"new_tokens": 4}, {"grad": True}, {"selected_share": 0.5}])
def test_options_of_a_model_beside_a_trace_are_refused(served, net, option):
    refused = served.post("/api/v1/plan", {"model": net, **option, "gpus": ["l4"]})
    assert (refused.status, "its arguments and inputs are fixed" in refused.detail) == (400, True)


def test_one_trace_that_is_handed_over_many_times_at_once_is_kept(net_file, tmp_path):
    uploads, content = Uploads(folder=tmp_path, limit_bytes=10**8), Path(net_file).read_bytes()
    with ThreadPoolExecutor(8) as threads:
        kept = list(threads.map(uploads.keep, [content] * 16))
    assert {upload["id"] for upload in kept} == {upload["id"] for upload in uploads.all()}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_client_that_goes_away_while_it_sends_a_body_is_no_bug():
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(messages)

    request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    with pytest.raises(GoneError):
        asyncio.run(read_body(request, limit=100))


def test_a_part_of_a_pipeline_is_prepared_by_named_steps_and_not_by_code():
    assert model_request(ModelFields(model="hf:whisper", prepare=("encoder",))).prepare == ("encoder",)
    with pytest.raises(UsageError, match="names code"):
        model_request(ModelFields(model="hf:whisper", prepare=("steps.py:mine",)))


def test_guesses_from_one_address_wait_and_those_of_others_do_not():
    from capplan.serve.http.access import MOST_WAITING, MOST_WRONG, WAIT_S, Access
    from capplan.serve.http.bodies import ProblemError

    async def tried() -> None:
        access = Access("correct-horse-battery-staple")
        loop = asyncio.get_running_loop()

        async def taken_s(words: str, client: str) -> float:
            began = loop.time()
            assert await access.admits(words, client=client) == (words == "correct-horse-battery-staple")
            return loop.time() - began

        for _ in range(MOST_WRONG):
            assert await taken_s("wrong", "10.0.0.1") < WAIT_S / 2
        many = [access.admits("wrong", client="10.0.0.1") for _ in range(MOST_WAITING + 5)]
        waited = asyncio.gather(*many, return_exceptions=True)
        await asyncio.sleep(0)
        assert await taken_s("correct-horse-battery-staple", "10.0.0.2") < WAIT_S / 2
        told = await waited
        assert told.count(False) == MOST_WAITING
        refused = [problem for problem in told if isinstance(problem, ProblemError)]
        assert [problem.status for problem in refused] == [429] * 5
        assert await taken_s("correct-horse-battery-staple", "10.0.0.1") >= WAIT_S * 0.9

    asyncio.run(tried())


def test_a_cookie_ends_with_its_time(monkeypatch):
    from capplan.serve.http import access

    one = access.Access("correct-horse-battery-staple")

    async def holds(cookie: str, of: access.Access) -> bool:
        return await of.admits_request(Headers({"cookie": f"{access.COOKIE}={cookie}"}), client="10.0.0.1")

    cookie, now = one.cookie(), time.time()
    assert asyncio.run(holds(cookie, one))
    assert not asyncio.run(holds(cookie, access.Access("another-token-of-this-service")))
    monkeypatch.setattr(access.time, "time", lambda: now + access.COOKIE_S + 2)
    assert not asyncio.run(holds(cookie, one))


def test_no_more_files_of_models_arrive_at_once_than_are_allowed(served):
    """Uploads that stop half-way hold their place; the next one is refused, and taken once one of them has gone."""
    most = ServiceLimits().uploads
    host, port = "127.0.0.1", served.port
    head = f"POST /api/v1/models?name=n.onnx HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 1000\r\n\r\n".encode()
    held = [socket.create_connection((host, port)) for _ in range(most)]
    try:
        for connection in held:
            connection.sendall(head + b"\x08")
        for _ in range(100):
            refused = served.ask("POST", "/api/v1/models?name=n.onnx", b"\x08x", {})
            if refused.status == 429:
                break
            time.sleep(0.05)
        assert refused.status == 429
        assert refused.headers["retry-after"]
        assert "arrive already" in refused.body.decode()
    finally:
        for connection in held:
            connection.close()
    for _ in range(100):
        if served.ask("POST", "/api/v1/models?name=n.onnx", b"\x08x", {}).status != 429:
            return
        time.sleep(0.05)
    raise AssertionError("the places of uploads that were given up are not free")
