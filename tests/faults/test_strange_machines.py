"""A cache that belongs to another user, and a clock that jumps: an answer, or one sentence, and nothing is spoilt."""

import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app
from tests.cli.conftest import NET

pytestmark = pytest.mark.slow

PLAN = ["plan", NET, "--input", "x=3x32x32", "--gpu", "l4", "--batch", "8", "--format", "json"]
NOBODY = 65534
TEN_YEARS_S = 10 * 365.25 * 86400


def asked(words: list[str]) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return re.sub(r'"offer_cautions": \[.*?\]', "", done.stdout, flags=re.DOTALL)  # the age of a price follows the day


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def as_nobody(work: Callable[[], None]) -> int:
    """Run work in a fork without any rights, and return its exit status."""
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        status = 1
        try:
            os.seteuid(NOBODY)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="another user can be taken on by root alone")
@pytest.mark.parametrize("rights", [pytest.param(0o700, marks=pytest.mark.nightly), 0o755], ids=["closed", "readable"])
def test_folders_of_another_user_are_left_alone(
    rights: int, net_trace: Path, monkeypatch: pytest.MonkeyPatch, own_cache: None
) -> None:
    cache = Path(os.environ["CAPPLAN_CACHE"])
    asked(PLAN)
    trace = Path(os.path.realpath("/var/tmp")) / f"capplan-{os.getpid()}.trace.json"  # its folder is open to all
    words = ["plan", str(trace), *PLAN[4:]]
    try:
        trace.write_bytes(net_trace.read_bytes())
        trace.chmod(0o644)
        expected = asked(words)
        for path in (cache, *cache.rglob("*")):
            path.chmod(rights if path.is_dir() else rights & 0o644)
        before = files(cache)
        assert before

        def work() -> None:
            assert asked(words) == expected
            told = CliRunner().invoke(app, ["cache"])
            assert told.exit_code in (0, 2), told.output
            assert "bug" not in told.output

        assert as_nobody(work) == 0
        assert files(cache) == before
    finally:
        trace.unlink(missing_ok=True)


@pytest.mark.parametrize("now_s", [0.0, pytest.param(4.3e9, marks=pytest.mark.nightly)], ids=["1970", "2106"])
def test_an_answer_does_not_hang_on_the_clock(
    now_s: float, own_cache: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = asked(PLAN)
    cache = Path(os.environ["CAPPLAN_CACHE"])
    kept = files(cache)
    assert kept
    for path in cache.rglob("*"):  # as if kept before, or after, the clock was set
        moment_s = max(0.0, time.time() + (-1 if now_s else 1) * TEN_YEARS_S)
        os.utime(path, (moment_s, moment_s))
    monkeypatch.setattr(time, "time", lambda: now_s)
    assert asked(PLAN) == expected
    assert asked(["cache"])
    assert set(kept) <= set(files(cache))
    asked([*PLAN, "-o", str(tmp_path / "plan.json")])
    assert (
        CliRunner()
        .invoke(app, ["check", str(tmp_path / "plan.json"), "--gpu", "l4", "--batch", "8", "--max-latency", "1s"])
        .exit_code
        == 0
    )
