"""The pool of planners by itself, with planners that kill themselves, or work until they are let go."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from capplan.serve import worker_pool as pool_module
from capplan.serve.planning.messages import Refusal, Reply, Task
from capplan.serve.settings import ServiceLimits, Settings
from capplan.serve.sharing import BusyError, UnwantedError, is_wanted
from capplan.serve.worker_pool import Lane, PlannerPool
from capplan.verbs.gpus import GpuQuestion
from tests.serve.told_planner import make_test_planner


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[PlannerPool], Awaitable[object]],
    losses: list[tuple[str, str]] | None = None,
    **limits: float,
) -> list[tuple[str, str]]:
    """Run work with a pool of two planners, and return the losses that were counted."""
    monkeypatch.setattr(pool_module, "make_planner", make_test_planner)
    monkeypatch.setattr(pool_module, "FIRST_PAUSE_S", 0.01)
    settings = Settings(state=tmp_path, limits=ServiceLimits(**{"planners": 2, "plan_s": 300.0, **limits}))  # type: ignore[arg-type]
    losses = [] if losses is None else losses

    async def within() -> None:
        pool = PlannerPool(settings, lost=lambda kind, death: losses.append((kind, death)))
        await pool.start()
        try:
            await work(pool)
        finally:
            await pool.stop()

    asyncio.run(within())
    return losses


async def ask(pool: PlannerPool, words: str, lane: Lane = Lane.ORDINARY) -> int:
    outcome = await pool.ask(Task(question=GpuQuestion(gpu=words)), lane=lane, wanted=is_wanted)
    assert isinstance(outcome, Reply), outcome
    return int(outcome.content)


def begun(tmp_path: Path) -> list[str]:
    """Return the questions that have begun, in their order."""
    path = tmp_path / "begun"
    return path.read_text().splitlines() if path.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_question_whose_process_is_killed_is_asked_again_once(tmp_path, monkeypatch, rounds):
    async def work(pool: PlannerPool) -> None:
        for number in range(rounds):
            await ask(pool, f"die-once flag{number}")
            with pytest.raises(BusyError) as lost:
                await ask(pool, "die")
            assert (lost.value.status, lost.value.retry_after_s >= 1) == (503, True)
            await ask(pool, "hello")

    losses = run(tmp_path, monkeypatch, work)
    assert losses == [("planner", "killed")] * 3 * rounds


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_question_that_no_process_received_is_not_lost_with_them(tmp_path, monkeypatch, rounds):
    # stopped processes read nothing: whichever is handed the question dies with it unread, and so may the next
    monkeypatch.setattr(pool_module, "LONGEST_PAUSE_S", 0.1)

    async def work(pool: PlannerPool) -> None:
        for _ in range(rounds):
            pids = [worker.pid for worker in pool._workers]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            question = asyncio.ensure_future(ask(pool, "hello"))
            await asyncio.sleep(0.05)
            assert not question.done()
            for pid in pids:
                await asyncio.sleep(0.01)
                os.kill(pid, signal.SIGKILL)
            assert await question not in pids
            await until(lambda: pool.alive == 4)

    assert run(tmp_path, monkeypatch, work, planners=4) == [("planner", "killed")] * 4 * rounds


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_idle_processes_that_are_killed_are_replaced_also_when_the_new_ones_are_killed_at_their_start(
    tmp_path, monkeypatch, rounds
):
    losses: list[tuple[str, str]] = []

    async def work(pool: PlannerPool) -> None:
        for _ in range(rounds):
            (tmp_path / "broken").touch()
            for pid in [worker.pid for worker in pool._workers]:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: pool.alive == 0)
            question = asyncio.ensure_future(ask(pool, "hello"))
            enough = len(losses) + 3
            await until(lambda enough=enough: len(losses) >= enough)  # replacements die as they start
            assert not question.done()
            (tmp_path / "broken").unlink()
            await question
            await until(lambda: pool.alive == 2)

    run(tmp_path, monkeypatch, work, losses)


def test_a_process_that_was_ready_is_replaced_at_once_however_often_it_is_killed(tmp_path, monkeypatch):
    """Pauses double for processes that cannot start: two planners must not starve because somebody kills them."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay_s: float) -> None:
        pauses.append(delay_s)
        await sleep(delay_s)

    async def work(pool: PlannerPool) -> None:
        for _ in range(5):
            known = set(pool.pids)
            for pid in pool.pids:
                os.kill(pid, signal.SIGKILL)
            await until(lambda known=known: pool.alive == 2 and not known & set(pool.pids))

    monkeypatch.setattr(asyncio, "sleep", noted)
    assert len(run(tmp_path, monkeypatch, work)) == 10
    assert max(pauses) < 2 * pool_module.FIRST_PAUSE_S


def test_a_service_whose_processes_cannot_start_says_so(tmp_path, monkeypatch):
    (tmp_path / "broken").touch()
    with pytest.raises(Exception, match="SIGKILL"):
        run(tmp_path, monkeypatch, lambda _: asyncio.sleep(0))


def test_a_question_that_takes_too_long_is_refused_and_its_process_replaced(tmp_path, monkeypatch):
    async def work(pool: PlannerPool) -> None:
        slow = Task(question=GpuQuestion(gpu="hold never"))
        asked = [asyncio.ensure_future(pool.ask(slow, lane=Lane.ORDINARY, wanted=is_wanted)) for _ in range(2)]
        refusals = await asyncio.gather(*asked)
        assert all(isinstance(refusal, Refusal) and "longer than 3 s" in refusal.message for refusal in refusals)
        await until(lambda: pool.alive == 2)
        await ask(pool, "hello")

    assert {death for _, death in run(tmp_path, monkeypatch, work, plan_s=3.0)} == {"time"}


def test_a_question_that_no_process_takes_in_time_may_come_again(tmp_path, monkeypatch):
    async def work(pool: PlannerPool) -> None:
        (tmp_path / "broken").touch()
        for worker in tuple(pool._workers):
            os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: pool.alive == 0)
        with pytest.raises(BusyError, match="no process became free within 1 s") as late:
            await ask(pool, "hello")
        assert late.value.status == 503

    run(tmp_path, monkeypatch, work, plan_s=1.0)


def test_a_question_that_is_given_up_is_finished_if_it_runs_and_dropped_if_it_waits(tmp_path, monkeypatch):
    async def work(pool: PlannerPool) -> None:
        pids = {worker.pid for worker in pool._workers}
        is_there = True
        running = [asyncio.ensure_future(ask(pool, "hold end")) for _ in range(2)]
        await until(lambda: len(begun(tmp_path)) == 2)
        waiting = asyncio.ensure_future(
            pool.ask(Task(question=GpuQuestion(gpu="die")), lane=Lane.SHORT, wanted=lambda: is_there)
        )
        await until(lambda: pool.waiting == 1)
        is_there = False
        assert pool.waiting == 0
        for task in running:
            task.cancel()
        (tmp_path / "end").touch()
        with pytest.raises(UnwantedError):
            await waiting
        assert await ask(pool, "hello") in pids

    assert run(tmp_path, monkeypatch, work) == []


def test_what_waits_is_bounded_and_short_questions_overtake(tmp_path, monkeypatch):
    async def work(pool: PlannerPool) -> None:
        busy = [asyncio.ensure_future(ask(pool, "hold first")) for _ in range(2)]
        await until(lambda: len(begun(tmp_path)) == 2)
        lanes = [Lane.LONG, Lane.ORDINARY, Lane.SHORT]
        waiting = [asyncio.ensure_future(ask(pool, f"hold second {lane.name}", lane)) for lane in lanes]
        await until(lambda: pool.waiting == 3)
        with pytest.raises(BusyError) as refused:
            await ask(pool, "hello")
        assert refused.value.status == 429
        (tmp_path / "first").touch()
        await until(lambda: len(begun(tmp_path)) == 4)
        assert set(begun(tmp_path)[2:]) == {"hold second SHORT", "hold second ORDINARY"}
        (tmp_path / "second").touch()
        await asyncio.gather(*busy, *waiting)

    run(tmp_path, monkeypatch, work, questions=3)


def test_long_questions_leave_one_process_to_short_ones(tmp_path, monkeypatch):
    async def work(pool: PlannerPool) -> None:
        long = [asyncio.ensure_future(ask(pool, "hold end", Lane.LONG)) for _ in range(3)]
        await until(lambda: len(begun(tmp_path)) == 1)
        await ask(pool, "hello")
        assert begun(tmp_path) == ["hold end", "hello"], "a second long question may not take the other process"
        (tmp_path / "end").touch()
        await asyncio.gather(*long)

    run(tmp_path, monkeypatch, work, plan_s=60.0)


def test_the_process_that_answered_last_answers_next_because_it_holds_what_the_next_question_needs(
    tmp_path, monkeypatch
):
    async def work(pool: PlannerPool) -> None:
        await until(lambda: len(pool._line._takers) == 2)
        first = await ask(pool, "hello")
        for _ in range(5):
            await until(lambda: len(pool._line._takers) == 2)
            assert await ask(pool, "hello") == first
        await until(lambda: len(pool._line._takers) == 2)
        both = await asyncio.gather(ask(pool, "hello"), ask(pool, "hello"))
        assert first in both
        assert len(set(both)) == 2

    run(tmp_path, monkeypatch, work)
