"""Which tests are skipped and why: told at the end of every run, and in CI an error unless it is expected.

Tests name what they need by a marker. What is missing is decided here, once, with one sentence that says how to get it.
"""

import importlib.util
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"

EXPECTED_IN_CI: Mapping[str, str] = {
    "root may write everywhere": "a folder that cannot be written is one for other users; hosted machines run as one",
    "needs a CUDA device": "CI machines have no GPU; the same contract runs on the fake device",
    "beside the project": "measured data is not part of the repository, and hosted machines lack it",
    "needs a framework of training": "frameworks of training are large, and their keys are kept in launch_keys.yaml",
    "which CI does not install": "large parsers of launch files; the schemas that they keep are checked without them",
    "(capplan[wild])": "a later step of .ci/run installs the extra and runs these tests",
}
"""Parts of the reasons of skips that CI accepts, and why it does."""


def has_cuda() -> bool:
    """Return True if torch finds a CUDA device."""
    import torch

    return torch.cuda.is_available()


def has_zoo() -> bool:
    """Return True if the libraries of models are installed."""
    return all(importlib.util.find_spec(name) for name in ("torchvision", "timm", "transformers"))


def has_ray() -> bool:
    """Return True if Ray is installed."""
    return importlib.util.find_spec("ray") is not None


def find_chromium() -> str | None:
    """Return the path of a Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def find_office() -> str | None:
    """Return the path of LibreOffice, or None."""
    return shutil.which("soffice") or shutil.which("libreoffice")


NEEDS: Mapping[str, tuple[Callable[[], object], str]] = {
    "device": (has_cuda, "needs a CUDA device"),
    "ray": (has_ray, "needs Ray: pip install '.[sweep]'"),
    "zoo": (has_zoo, "needs torchvision, timm and transformers: pip install '.[zoo]'"),
    "browser": (find_chromium, "needs Chromium: apt-get install chromium"),
    "office": (find_office, "needs LibreOffice: apt-get install libreoffice-calc-nogui"),
    "poppler": (lambda: shutil.which("pdftotext"), "needs pdftotext: apt-get install poppler-utils"),
    "prometheus": (
        lambda: shutil.which("prometheus") and shutil.which("promtool"),
        "needs Prometheus: apt-get install prometheus",
    ),
    "shared": (SHARED.is_dir, "needs the measured data beside the project, in ../shared"),
}
"""By marker: whether this machine has what the test needs, and the reason for skipping it if not."""


def skip_what_is_missing(item: pytest.Item) -> None:
    """Skip a test that needs what this machine lacks."""
    for marker, (is_there, reason) in NEEDS.items():
        if item.get_closest_marker(marker) and not is_there():
            pytest.skip(reason)


class SkipReport:
    """Gather skips while tests run; list them by reason at the end, and fail on unexpected ones in CI."""

    def __init__(self, config: pytest.Config) -> None:
        self.reasons: Counter[str] = Counter()
        self.is_worker = hasattr(config, "workerinput")
        self.in_ci = os.environ.get("CI", "").lower() in ("1", "true")

    @property
    def unexpected(self) -> list[str]:
        """Reasons that CI does not accept."""
        return sorted(reason for reason in self.reasons if not any(part in reason for part in EXPECTED_IN_CI))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a skipped test."""
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that was skipped as a whole."""
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.reasons[re.sub(r"^Skipped: ", "", told)] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List what was skipped."""
        if not self.reasons:
            return
        terminalreporter.section("skipped, and why")
        for reason, count in sorted(self.reasons.items()):
            terminalreporter.write_line(f"{count:5d}  {reason}")
        if self.in_ci and self.unexpected:
            terminalreporter.write_line(
                f"FAILED: {len(self.unexpected)} unexpected reasons for skipping; add what is missing to the CI "
                "machine, or the reason to tests/skips.py",
                red=True,
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run in CI if a skip was not expected."""
        if self.in_ci and not self.is_worker and self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
