"""Foreign code runs as on a machine without a network, prints to stderr, and fails with the line of the user's code."""

import contextlib
import errno
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from capplan.app.trace_cache import TraceKey, files_behind
from capplan.errors import TraceError
from capplan.probe.foreign.code import model_code
from capplan.probe.foreign.importing import load_code


def test_code_that_asks_whether_it_is_online_is_told_no() -> None:
    with model_code("asking"):
        with pytest.raises(socket.gaierror) as looked_up:
            socket.getaddrinfo("example.invalid", 443)
        with pytest.raises(OSError, match="unreachable") as connected:
            socket.create_connection(("192.0.2.1", 80), timeout=1)  # an address of RFC 5737, which nobody has
    assert looked_up.value.errno == socket.EAI_AGAIN
    assert connected.value.errno == errno.ENETUNREACH


def test_this_machine_itself_is_reached() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with model_code("asking"), socket.create_connection(server.getsockname()) as client:
            assert client.getpeername() == server.getsockname()


def test_what_was_asked_for_is_named_only_if_the_code_then_fails() -> None:
    def download() -> None:
        with contextlib.suppress(OSError):
            socket.getaddrinfo("example.invalid", 443)
        raise KeyError("weights")

    said = r"KeyError: 'weights' .*tried to reach example\.invalid, and nothing is"
    with pytest.raises(TraceError, match=said), model_code("building net"):
        download()


def test_the_hubs_client_is_told_at_once_that_it_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    said = r"tried to reach huggingface\.co, and nothing is downloaded"
    with pytest.raises(TraceError, match=said), model_code("building net"):
        hub.hf_hub_download("capplan-nobody/there-is-no-such-model", "model.safetensors")
    assert slept == []  # it would wait 1, 2, 4, 8 and 8 s between tries, for each file
    assert hub.constants.HF_HUB_OFFLINE is False


def test_child_processes_find_no_package_index() -> None:
    with model_code("building net"):
        told = subprocess.run(
            [sys.executable, "-c", "import os; print(os.environ['PIP_NO_INDEX'], os.environ['https_proxy'])"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert told.stdout.split() == ["1", "http://127.0.0.1:9"]


def test_everything_printed_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with model_code("building net"):
        print("by print")
        sys.__stdout__.write("past sys.stdout\n")
        os.write(1, b"by the descriptor\n")
        subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
    print("the answer")
    out, err = capfd.readouterr()
    assert out == "the answer\n"
    assert set(err.splitlines()) >= {"by print", "past sys.stdout", "by the descriptor", "by a child"}


@pytest.mark.slow
def test_a_forked_child_gives_no_second_answer() -> None:
    code = (
        "import os\nfrom capplan.probe.foreign.code import model_code\n"
        "with model_code('building net'):\n    os.fork()\nprint('answer')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "answer\n"


def test_the_line_of_the_users_code_is_named(tmp_path: Path) -> None:
    (tmp_path / "mended.py").write_text("import torch\n\ndef fails():\n    torch.zeros(2) @ torch.zeros(3)\n")
    module = load_code(str(tmp_path / "mended.py"))
    said = r"running it failed: RuntimeError: .* \(at mended\.py:4\)"
    with pytest.raises(TraceError, match=said), model_code("running it"):
        module.fails()


def test_modules_that_load_on_demand_are_not_touched(tmp_path: Path) -> None:
    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"asked for {name}, which would load the module")

    (tmp_path / "lazy_part.py").write_text("")
    (tmp_path / "net.py").write_text("from torch import nn\nNet = nn.Identity\n")
    lazy = Lazy("lazy_part")
    del lazy.__dict__["__spec__"]
    sys.modules["lazy_part"] = lazy
    try:
        load_code(str(tmp_path / "net.py"))
        assert files_behind(TraceKey(words=f"{tmp_path}/net.py:Net"))
        assert sys.modules["lazy_part"] is lazy
    finally:
        del sys.modules["lazy_part"]


def test_a_librarys_settings_stay_out_of_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """ultralytics writes them at its first import, where this variable says, else below the home."""
    monkeypatch.delenv("YOLO_CONFIG_DIR", raising=False)
    with model_code("importing it"):
        given = Path(os.environ["YOLO_CONFIG_DIR"])
        assert given.is_relative_to(tempfile.gettempdir())
        assert not given.exists()  # the library makes it: a process that is killed leaves no folder behind
    assert "YOLO_CONFIG_DIR" not in os.environ
    monkeypatch.setenv("YOLO_CONFIG_DIR", "chosen")
    with model_code("importing it"):
        assert os.environ["YOLO_CONFIG_DIR"] == "chosen"
