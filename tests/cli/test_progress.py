"""The running median on a terminal, and nothing elsewhere."""

import io

import pytest

from capplan.cli.progress import live_line, live_words
from capplan.probe.measure.timing import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_running_median_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with live_line("net, batch 8") as show:
        show(Progress(repetitions=120, median_s=0.0112, width_fraction=0.008))
    shown = terminal.getvalue().split("\r\x1b[2K")
    assert shown == ["", "net, batch 8: warming up", "net, batch 8: 120 repetitions, median 11.2 ms ± 0.40 %", ""]


def test_a_terminal_is_left_clean_after_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(KeyboardInterrupt), live_words("net: trying batch 4"):
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_a_pipe_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with live_line("net, batch 8") as show:
        show(Progress(repetitions=6, median_s=0.1, width_fraction=None))
    with live_words("net"):
        pass
    assert not pipe.getvalue()
