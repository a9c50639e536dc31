import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capplan.app.trace_cache import DAMAGED, TraceCache, TraceKey, default_cache
from capplan.core.trace.types import Provenance, Trace
from capplan.core.workload import Configuration, Variant
from capplan.errors import UsageError

pytestmark = pytest.mark.slow


def a_trace(name: str) -> Trace:
    return Trace(
        name=name, target=name, class_name="Net", parameters=(), inputs=(), recordings=(),
        provenance=Provenance(capplan_version="0"),
    )  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path) -> TraceCache:
    return TraceCache(folder=tmp_path / "cache")


QUESTION = TraceKey(words="timm:resnet50")


def test_what_was_kept_is_found(cache: TraceCache) -> None:
    assert cache.find(QUESTION) is None
    cache.keep(QUESTION, a_trace("one"), files=[])
    assert cache.find(QUESTION) == a_trace("one")


@pytest.mark.parametrize(
    "other",
    [
        TraceKey(words="timm:resnet18"),
        TraceKey(words="timm:resnet50", options=("--arg", "num_classes=3")),
        TraceKey(words="timm:resnet50", configurations=(Configuration(variant=Variant.AMP),)),
        TraceKey(words="timm:resnet50", exact_batch=8),
    ],
)
def test_another_question_has_another_answer(cache: TraceCache, other: TraceKey) -> None:
    cache.keep(QUESTION, a_trace("one"), files=[])
    assert cache.find(other) is None


def test_an_entry_is_stale_once_a_file_changes(cache: TraceCache, tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("WIDTH = 3\n")
    cache.keep(QUESTION, a_trace("one"), files=[path])
    assert cache.find(QUESTION) is not None
    path.write_text("WIDTH = 4\n")
    assert cache.find(QUESTION) is None
    path.unlink()
    assert cache.find(QUESTION) is None


def test_the_same_words_in_another_folder_name_another_file(
    cache: TraceCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = TraceKey(words="net.py:Net")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    cache.keep(question, a_trace("one"), files=[])
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cache.find(question) is None


def test_a_damaged_entry_is_forgotten(cache: TraceCache) -> None:
    cache.keep(QUESTION, a_trace("one"), files=[])
    (path,) = cache.folder.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    assert cache.find(QUESTION) is None
    assert not path.exists()


def test_entries_are_listed_and_cleared_by_model(cache: TraceCache) -> None:
    cache.keep(QUESTION, a_trace("one"), files=[])
    cache.keep(TraceKey(words="hf:bert", options=("--seq-len", "7")), a_trace("two"), files=[])
    assert {(entry.words, entry.options) for entry in cache.entries()} == {
        ("timm:resnet50", ()), ("hf:bert", ("--seq-len", "7")),
    }  # fmt: skip
    assert cache.clear(words="hf:bert") == 1
    assert [entry.words for entry in cache.entries()] == ["timm:resnet50"]
    assert cache.clear() == 1
    assert cache.clear() == 0


def keep_and_find(folder: str, name: str) -> bool:
    cache = TraceCache(folder=Path(folder))
    for _ in range(30):
        cache.keep(QUESTION, a_trace(name), files=[])
        found = cache.find(QUESTION)
        if found is None or found.name not in ("a", "b", "c"):
            return False
    return True


@pytest.mark.nightly
def test_writers_at_once_never_show_half_an_entry(cache: TraceCache) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        assert all(pool.starmap(keep_and_find, [(str(cache.folder), name) for name in "abc"]))
    assert [path.suffix for path in cache.folder.iterdir()] == [".trace"]


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = TraceCache(folder=tmp_path / "file" / "cache")
    cache.keep(QUESTION, a_trace("one"), files=[])
    assert cache.find(QUESTION) is None
    assert not list(cache.entries())


def test_the_environment_says_where_and_whether(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    assert default_cache() is None
    monkeypatch.setenv("CAPPLAN_CACHE", "/somewhere")
    assert default_cache() == TraceCache(folder=Path("/somewhere"))
    monkeypatch.delenv("CAPPLAN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert default_cache() == TraceCache(folder=Path("/xdg/capplan/traces"))


SCRIPT = """
import sys
from capplan.cli.main import app
from typer.testing import CliRunner
result = CliRunner().invoke(app, ["analyze", sys.argv[1], "--input", "4", "--json"])
assert result.exit_code == 0, result.stderr
print(sorted({"torch", "pandas"} & set(sys.modules)))
print(result.stdout)
"""


def test_asking_again_loads_neither_torch_nor_pandas_until_the_model_changes(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("WIDTH = 5\n")
    model = tmp_path / "net.py"
    model.write_text("from torch import nn\nfrom parts import WIDTH\n\ndef make():\n    return nn.Linear(4, WIDTH)\n")
    environment = {**os.environ, "CAPPLAN_CACHE": str(tmp_path / "cache")}

    def ask() -> tuple[str, str]:
        command = [sys.executable, "-c", SCRIPT, f"{model}:make"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        loaded, _, answer = done.stdout.partition("\n")
        return loaded, answer

    assert ask()[0] == "['torch']"
    loaded, answer = ask()
    assert loaded == "[]"
    assert '"macs": 20' in answer
    (tmp_path / "parts.py").write_text("WIDTH = 6\n")
    loaded, answer = ask()
    assert loaded == "['torch']"
    assert '"macs": 24' in answer


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b'{"words": 5, "options": [], "configurations": [], "files": {}}\n',
        b'{"words": "x", "options": 5, "configurations": [], "files": {}}\n',
        b'{"words": "x", "options": [], "configurations": [], "files": []}\n',
        b'{"words": "x", "options": [], "configurations": [], "files": {}}',
        b'{"words": "x", "options": [], "configurations": [], "files": {}}\n\x1f\x8bno gzip',
        b'{"words": ' + b"[" * 200_000,
        b"x" * 3_000_000,
    ],
)
def test_a_damaged_entry_is_made_anew_listed_and_cleared(cache: TraceCache, content: bytes) -> None:
    cache.keep(QUESTION, a_trace("one"), files=[])
    [entry] = cache.entries()
    entry.path.write_bytes(content)
    assert len(list(cache.entries())) == 1
    assert cache.find(QUESTION) is None
    cache.keep(QUESTION, a_trace("one"), files=[])
    assert cache.find(QUESTION) == a_trace("one")
    entry.path.write_bytes(content)
    assert cache.clear() == 1
    assert list(cache.entries()) == []


def test_what_is_no_entry_does_not_stop_the_cache(cache: TraceCache, tmp_path: Path) -> None:
    cache.keep(QUESTION, a_trace("one"), files=[])
    [entry] = cache.entries()
    (cache.folder / "dangling.trace").symlink_to(tmp_path / "nothing")
    (cache.folder / "folder.trace").mkdir()
    (cache.folder / ".capplan-killed.partial").write_bytes(b"half")
    assert sorted(each.words for each in cache.entries()) == [DAMAGED, "timm:resnet50"]
    entry.path.unlink()
    entry.path.mkdir()
    assert cache.find(QUESTION) is None
    cache.keep(QUESTION, a_trace("one"), files=[])
    assert cache.clear() == 1
    assert sorted(each.name for each in cache.folder.iterdir()) == sorted(["folder.trace", entry.path.name])


def test_an_entry_that_somebody_else_laid_down_is_neither_waited_for_nor_read_whole(
    cache: TraceCache, tmp_path: Path
) -> None:
    cache.keep(QUESTION, a_trace("one"), files=[])
    [entry] = cache.entries()
    whole = entry.path.read_bytes()
    endless = tmp_path / "endless"
    with endless.open("wb") as stream:
        stream.truncate(2**40)  # more than a machine has memory; a sparse file takes no disk
    for lay in (lambda: os.mkfifo(entry.path), lambda: entry.path.symlink_to(endless)):
        entry.path.unlink(missing_ok=True)
        lay()
        assert len(list(cache.entries())) == 1
        assert not cache.holds(QUESTION)
        assert cache.find(QUESTION) is None
    entry.path.unlink(missing_ok=True)
    entry.path.write_bytes(whole.replace(b'"files": {}', b'"files": {"%s": "0"}' % os.fsencode(endless)))
    assert cache.find(QUESTION) is None


def test_a_trace_that_depends_on_too_much_is_not_kept(cache: TraceCache, tmp_path: Path) -> None:
    large = tmp_path / "weights.bin"
    with large.open("wb") as stream:
        stream.truncate(2**30)  # a sparse file: it takes no disk
    cache.keep(QUESTION, a_trace("one"), files=[large])
    assert cache.find(QUESTION) is None


def test_a_folder_that_has_no_possible_name_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="cannot be read: File name too long"):
        list(TraceCache(folder=Path("x" * 5000)).entries())


def test_words_too_long_for_a_file_name_are_kept(cache: TraceCache) -> None:
    question = TraceKey(words="x" * 5000, options=("--arg", "width=" + "1," * 3000, "a\0b"))
    cache.keep(question, a_trace("one"), files=[])
    assert cache.find(question) == a_trace("one")
