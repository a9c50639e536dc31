"""The one writer of answers: links, pipes, inputs, what is replaced unasked and what is not."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from capplan import files
from capplan.errors import UsageError
from capplan.files import keep_whole, replace_whole, working_folder, write_file, write_files

PLAN = json.dumps({"schema_version": 1, "model": "a", "fits": []}).encode()
OTHER_PLAN = json.dumps({"schema_version": 1, "model": "b", "fits": [1], "job": None}).encode()


def trace_of(target: str) -> bytes:
    return json.dumps({"format": "capplan-trace", "schema_version": 1, "target": target}).encode()


def test_a_new_file_is_written_with_the_permissions_of_new_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_file(path, PLAN)
    assert path.read_bytes() == PLAN
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["plain", "plan.json"]


def test_what_a_killed_writer_left_is_removed_by_a_later_process(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in (".capplan-0a.partial", ".capplan-0b.partial", ".else.partial"))
    for path in (old, new, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    write_file(tmp_path / "plan.json", PLAN)
    assert {each.name for each in tmp_path.iterdir()} == {"plan.json", new.name, other.name}


def test_an_unfinished_file_stays_while_its_writer_lives_and_goes_at_once_when_it_was_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from capplan import files\n"
        "with files._staged(Path(sys.argv[1]), b'half'): print('written', flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "plan.json")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        (unfinished,) = tmp_path.iterdir()
        os.utime(unfinished, (time.time() - 5, time.time() - 5))
        files._remove_litter.cache_clear()
        write_file(tmp_path / "other.json", PLAN)
        assert unfinished.exists()
    finally:
        writer.kill()
        writer.communicate()
    files._remove_litter.cache_clear()
    write_file(tmp_path / "other.json", OTHER_PLAN)
    assert [path.name for path in tmp_path.iterdir()] == ["other.json"]


def test_of_several_files_none_is_replaced_where_one_cannot_be(tmp_path: Path) -> None:
    good, kept = tmp_path / "plan.json", tmp_path / "notes.txt"
    good.write_bytes(PLAN)
    kept.write_text("something else")
    with pytest.raises(UsageError, match="holds something else"):
        write_files({good: OTHER_PLAN, kept: OTHER_PLAN})
    assert good.read_bytes() == PLAN
    with pytest.raises(UsageError, match="cannot write"):
        write_files({good: OTHER_PLAN, tmp_path / "missing" / "plan.json": OTHER_PLAN})
    assert good.read_bytes() == PLAN
    write_files({good: OTHER_PLAN, tmp_path / "copy.json": OTHER_PLAN})
    assert good.read_bytes() == (tmp_path / "copy.json").read_bytes() == OTHER_PLAN
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.json", "notes.txt", "plan.json"]


def test_a_file_that_was_removed_is_kept_again(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "rows.csv"
    keep_whole(path, PLAN)
    path.unlink()
    keep_whole(path, PLAN)
    assert path.read_bytes() == PLAN


def test_a_writer_leaves_the_umask_of_other_threads_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to the process: a thread that changes it for a moment lets others write files for everybody."""
    monkeypatch.setattr("os.umask", lambda _: pytest.fail("the umask of the whole process was changed"))
    write_file(tmp_path / "plan.json", PLAN)
    write_file(tmp_path / "plan.json", OTHER_PLAN)


def test_an_older_answer_of_the_same_kind_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_file(path, PLAN)
    path.chmod(0o600)
    write_file(path, OTHER_PLAN)
    assert path.read_bytes() == OTHER_PLAN
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "kept",
    [
        b"my notes\n",
        b"\x89PNG\r\n\x1a\n",
        b'{"estimates": []}',
        b"name,age\nAda,36\n",
        b"GPU  price\n---  -----\n",
        b"key: value\n",
        b"[" * 100_000,
        b"[]",
        b"\x1f\x8bno gzip",
    ],
)
def test_something_else_is_kept_unless_forced(kept: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(kept)
    with pytest.raises(UsageError, match=r"plan\.json exists and holds something else.*⟨force⟩"):
        write_file(path, PLAN)
    assert path.read_bytes() == kept
    write_file(path, PLAN, force=True)
    assert path.read_bytes() == PLAN


def test_a_trace_of_another_model_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.trace.json"
    write_file(path, trace_of("resnet18"))
    write_file(path, trace_of("resnet18") + b"\n")
    with pytest.raises(UsageError, match="⟨force⟩"):
        write_file(path, trace_of("resnet50"))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (b"GPU  batch\n---  -----\nl4   1\n", b"Title\n\nGPU        batch\n---------  -----\nt4 2\n"),
        (b"| GPU | batch |\n| --- | ---: |\n| l4 | 1 |\n", b"| GPU | batch |\n| --- | ---: |\n"),
        (b"gpu,batch\nl4,1\n", b"gpu,batch,fits\nt4,2,yes\n"),
        (b"name: own\nmade: 2026-01-01\n", b"name: other\nmade: 2026-01-02\n"),
        (b'<svg class="chart"><g class="line"/></svg>', b'<svg class="chart"></svg>'),
        (b"", b"anything"),
    ],
)
def test_tables_data_and_charts_are_recognised(older: bytes, newer: bytes, tmp_path: Path) -> None:
    path = tmp_path / "answer"
    path.write_bytes(older)
    write_file(path, newer)
    assert path.read_bytes() == newer


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    target, link, farther = tmp_path / "target.json", tmp_path / "link.json", tmp_path / "farther.json"
    target.write_bytes(PLAN)
    link.symlink_to("target.json")
    farther.symlink_to(link)
    write_file(farther, OTHER_PLAN)
    assert target.read_bytes() == OTHER_PLAN
    assert link.is_symlink()
    assert farther.is_symlink()


def test_a_dangling_link_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "new.json")
    write_file(link, PLAN)
    assert (tmp_path / "new.json").read_bytes() == PLAN


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(UsageError, match="cannot write"):
        write_file(one, PLAN)


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, PLAN)
    reader.join(timeout=300)
    assert read == [PLAN]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_open_descriptor_is_written_in_place_and_keeps_what_it_holds(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"before\n")
    with log.open("ab") as stream:
        link = tmp_path / "stdout"  # as /dev/stdout is a link to the process's own descriptor
        link.symlink_to(f"/proc/self/fd/{stream.fileno()}")
        write_file(link, PLAN)
    assert log.read_bytes() == b"before\n" + PLAN
    assert link.is_symlink()


def test_a_terminal_is_written_in_place() -> None:
    master, slave = os.openpty()
    try:
        write_file(Path(os.ttyname(slave)), b"answer")
        assert os.read(master, 100) == b"answer"
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("name", ["input.json", "link.json", "./input.json"])
def test_an_input_is_never_overwritten(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("input.json").write_bytes(PLAN)
    Path("link.json").symlink_to("input.json")
    for force in (False, True):
        with pytest.raises(UsageError, match="is an input of this command and is kept"):
            write_file(Path(name), OTHER_PLAN, inputs=[tmp_path / "input.json"], force=force)
    assert Path("input.json").read_bytes() == PLAN


def test_a_folder_or_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        write_file(tmp_path, PLAN)
    with pytest.raises(UsageError, match="No such file or directory"):
        write_file(tmp_path / "missing" / "plan.json", PLAN)


def test_a_name_as_long_as_a_file_system_allows_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250 + ".json")
    write_file(path, PLAN)
    assert path.read_bytes() == PLAN


def test_a_full_disk_leaves_the_older_answer_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(PLAN)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"cannot write .*plan\.json: No space left on device"):
        write_file(path, OTHER_PLAN)
    with pytest.raises(OSError, match="No space left"):
        replace_whole(path, OTHER_PLAN)
    assert path.read_bytes() == PLAN
    assert list(tmp_path.iterdir()) == [path]


HOLD = """
import sys, time
from capplan.files import working_folder
with working_folder("tried") as folder:
    (folder / "part").write_text("half")
    print(folder, flush=True)
    time.sleep(600)
"""


def test_folders_of_killed_processes_are_removed_by_the_next_and_those_of_living_ones_kept(tmp_path, monkeypatch):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = [
        subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    try:
        killed, living = (Path(process.stdout.readline().strip()) for process in held)
        held[0].kill()
        held[0].wait()
        assert (killed / "part").exists()
        with working_folder("other"):
            assert killed.exists()  # of another name, whose files may be of use to somebody
        with working_folder("tried") as mine:
            assert {path.name for path in tmp_path.iterdir()} == {
                name for folder in (mine, living) for name in (folder.name, f"{folder.name}.lock")
            }
        assert (living / "part").read_text() == "half"
    finally:
        for process in held:
            process.kill()
            process.wait()
            process.stdout.close()
    with working_folder("tried"):
        assert not living.exists()
    assert not list(tmp_path.iterdir())
