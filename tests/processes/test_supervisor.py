"""Workers that are killed, crash, hang or hold too much memory: each death is stated, and the next task is answered."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import capplan
from capplan.processes.supervisor import Death, Template, Worker, WorkerDiedError
from capplan.processes.worker import ANSWER, UnexpectedError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are observed in /proc")


def make_worker_of(secret: int) -> Callable[[tuple[str, float]], object]:
    """Return what does as it is told."""

    def answer(task: tuple[str, float]) -> object:
        what, amount = task
        if what == "sleep":
            time.sleep(amount)
        elif what == "signal":
            os.kill(os.getpid(), int(amount))
            time.sleep(60)
        elif what == "hold":
            held = bytearray(b"x" * int(amount))
            time.sleep(60)
            del held
        elif what == "raise":
            raise ValueError("no such thing")
        elif what == "exit":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            os._exit(int(amount))
        elif what == "once":
            flag = Path(str(secret))
            if not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return secret, os.getpid()

    return answer


class Evil:
    """What an answer may hold that was made by code of a stranger: to unpickle it makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path(self.path),)


def make_evil(path: str) -> Callable[[bytes], bytes]:
    """Return what answers as agreed, or writes a pickle to the connection as code of a stranger could."""

    def answer(task: bytes) -> bytes:
        if task == b"evil":
            connection = next(held for held in gc.get_objects() if isinstance(held, Connection))
            connection.send_bytes(ANSWER + pickle.dumps(Evil(path)))
        return task

    return answer


def make_nothing() -> Callable[[object], object]:
    """Fail at the start."""
    raise RuntimeError("there is no model library here")


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(params=["interpreter", "fork"])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    template = Template("json") if request.param == "fork" else None
    made = Worker(make_worker_of, 7, template=template, memory_bytes=2**29)
    yield made
    made.close()


def death_of(worker: Worker, task: tuple[str, float], **limits: float) -> WorkerDiedError:
    with pytest.raises(WorkerDiedError) as died:
        worker.call(task, **limits)
    return died.value


def test_one_process_answers_task_after_task(worker: Worker) -> None:
    first, second = worker.call(("add", 0)), worker.call(("add", 0))
    assert first == second == (7, worker.pid)


def test_an_exception_is_an_answer_and_ends_no_process(worker: Worker) -> None:
    answer = worker.call(("raise", 0))
    assert isinstance(answer, UnexpectedError)
    assert answer.message == "ValueError: no such thing"
    assert "make_worker_of" not in answer.message
    assert "line" in answer.trace
    assert worker.call(("add", 0)) == (7, worker.pid)


@pytest.mark.parametrize(
    ("task", "death", "words"),
    [
        (("signal", signal.SIGKILL), Death.KILLED, "killed by SIGKILL"),
        (("signal", signal.SIGSEGV), Death.CRASH, "killed by SIGSEGV"),
        (("signal", signal.SIGXCPU), Death.TIME, "time of the processor"),
        (("sleep", 60), Death.TIME, "took more than 0.5 s"),
        (("hold", 2**30), Death.MEMORY, "more than 512 MiB"),
        (("exit", 3), Death.CRASH, "ended with status 3"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_every_death_is_stated_and_the_next_task_is_answered(
    worker: Worker, task: tuple[str, float], death: Death, words: str
) -> None:
    died = death_of(worker, task, **({"time_s": 0.5} if task[0] == "sleep" else {}))
    assert (died.death, words in str(died)) == (death, True), str(died)
    assert not worker.is_alive
    assert worker.call(("add", 0)) == (7, worker.pid)


@pytest.mark.parametrize("size", [0, 10**6], ids=["small", "more than a socket holds"])
def test_a_death_states_whether_the_task_was_received(worker: Worker, size: int) -> None:
    worker.start()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)  # reads nothing any more, as one that is being killed
    threading.Timer(0.1, os.kill, (worker.pid, signal.SIGKILL)).start()
    assert not death_of(worker, ("add" + "x" * size, 0)).began
    assert death_of(worker, ("signal", signal.SIGKILL)).began


@pytest.mark.parametrize("stage", ["starting", "idle", "handed a task", "working"])
def test_a_process_killed_at_any_stage_is_replaced_and_the_task_answered(worker: Worker, stage: str) -> None:
    def kill_soon(pid: int | None, after_s: float) -> None:
        assert pid is not None
        threading.Timer(after_s, os.kill, (pid, signal.SIGKILL)).start()

    if stage == "starting":

        def kill_when_started() -> None:
            while worker.pid is None:
                time.sleep(0.001)
            os.kill(worker.pid, signal.SIGKILL)

        threading.Thread(target=kill_when_started).start()
        with pytest.raises(WorkerDiedError) as died:
            worker.start()
        assert died.value.death is Death.KILLED
    elif stage == "idle":
        worker.start()
        first = worker.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        while not is_gone(first):
            time.sleep(0.01)
    elif stage == "handed a task":
        worker.start()
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
        kill_soon(worker.pid, 0.1)
    else:
        worker.start()
        kill_soon(worker.pid, 0.2)
        assert death_of(worker, ("sleep", 60)).death is Death.KILLED
    assert worker.call_again(("add", 0)) == (7, worker.pid)


def test_the_last_line_of_stderr_is_part_of_the_reason() -> None:
    worker = Worker(make_worker_of, 7)
    assert str(death_of(worker, ("exit", 3))) == "its process ended with status 3: the last words"
    broken = Worker(make_nothing)
    with pytest.raises(WorkerDiedError, match="there is no model library here") as died:
        broken.start()
    assert died.value.death is Death.CRASH


def test_a_stopped_wait_ends_the_process(worker: Worker) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(WorkerDiedError) as died:
        worker.call(("sleep", 60), stop=stop)
    assert died.value.death is Death.STOPPED
    assert not worker.is_alive


def test_a_process_killed_between_two_tasks_is_replaced(worker: Worker) -> None:
    _, pid = worker.call(("add", 0))
    os.kill(pid, signal.SIGKILL)
    assert worker.call_again(("add", 0))[1] != pid


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_task_whose_process_is_killed_is_tried_again_and_a_crash_is_not_tried_for_ever(
    tmp_path: Path, rounds: int
) -> None:
    for number in range(rounds):
        worker = Worker(make_worker_of, str(tmp_path / f"flag{number}"))
        assert worker.call_again(("once", 0))[1] == worker.pid
        with pytest.raises(WorkerDiedError, match="SIGSEGV"):
            worker.call_again(("signal", signal.SIGSEGV))
        worker.close()


def test_a_task_of_an_unpicklable_answer_is_an_error_and_not_a_death() -> None:
    worker = Worker(make_lock)
    answer = worker.call(None)
    assert isinstance(answer, UnexpectedError)
    assert "pickle" in answer.message
    worker.close()


def make_lock() -> Callable[[object], object]:
    return lambda _: threading.Lock()


def test_a_closed_worker_leaves_no_process(worker: Worker) -> None:
    _, pid = worker.call(("add", 0))
    worker.close()
    deadline_s = time.monotonic() + 300
    while not is_gone(pid):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.mark.parametrize("template", ["None", "Template('json')"])
def test_workers_die_with_their_parent(template: str) -> None:
    import subprocess

    program = (
        "import sys, time\n"
        "from capplan.processes.supervisor import Template, Worker\n"
        "from tests.processes.test_supervisor import make_worker_of\n"
        f"worker = Worker(make_worker_of, 7, template={template})\n"
        "print(worker.call(('add', 0))[1], flush=True)\n"
        "worker.call(('sleep', 600))\n"
    )
    root = str(Path(__file__).parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline_s = time.monotonic() + 300
    while not is_gone(pid):
        assert time.monotonic() < deadline_s, "a worker outlived its parent"
        time.sleep(0.02)


def test_workers_are_forked_from_where_the_parent_imports(tmp_path: Path) -> None:
    """A folder `capplan/` in the working folder is another program, which `python -c` would import first."""
    (tmp_path / "work" / "capplan").mkdir(parents=True)
    (tmp_path / "work" / "capplan" / "__init__.py").write_text("raise SystemExit('another capplan')\n")
    (tmp_path / "which.py").write_text("def make():\n    import capplan\n\n    return lambda _: capplan.__file__\n")
    (tmp_path / "asks.py").write_text(
        "import which\nfrom capplan.processes.supervisor import Template, Worker\n"
        "if __name__ == '__main__':\n"
        "    worker = Worker(which.make, template=Template('capplan.units', 'capplan'))\n"
        "    print(worker.call('where'))\n    worker.close()\n"
    )
    asked = subprocess.run(
        [sys.executable, str(tmp_path / "asks.py")], cwd=tmp_path / "work", capture_output=True, text=True, check=False
    )
    assert asked.stdout.strip() == capplan.__file__, asked.stderr


def test_a_typed_answer_is_never_unpickled(tmp_path: Path) -> None:
    """A worker for code of strangers: what it sends is decoded as the type that was agreed, or is no answer."""
    place = tmp_path / "touched"
    working = Worker(make_evil, str(place), answers=bytes)
    try:
        assert working.call(b"honest") == b"honest"
        with pytest.raises(WorkerDiedError, match="no answer") as died:
            working.call(b"evil")
        assert died.value.death is Death.CRASH
        assert working.call(b"honest") == b"honest"
    finally:
        working.close()
    assert not place.exists()
    assert pickle.loads(pickle.dumps(Evil(str(place)))) is None
    assert place.exists()  # so the pickle would have done it
