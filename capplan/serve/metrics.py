"""Counters in the text format of Prometheus, and structured logs of requests by their route."""

import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_HELP = {
    "capplan_requests_total": "Requests by route, method and status.",
    "capplan_request_seconds": "Time from a request's first byte to its answer's last. [s]",
    "capplan_trace_seconds": "Time that tracing one recording of a model took. [s]",
    "capplan_answers_total": "Answers by where they came from.",
    "capplan_processes_lost_total": "Processes that died without being asked to, by kind and how.",
    "capplan_refused_total": "Requests refused before they were read, by reason.",
}
Labels = tuple[tuple[str, str], ...]
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Metrics:
    """Counters and histograms since the start."""

    def __init__(self) -> None:
        """Start at zero."""
        self._counters: Counter[tuple[str, Labels]] = Counter()
        self._buckets: Counter[tuple[str, Labels, float]] = Counter()
        self._sums: Counter[tuple[str, Labels]] = Counter()
        self._started_s = time.time()

    def count(self, name: str, **labels: str) -> None:
        """Add one to a counter."""
        self._counters[name, tuple(sorted(labels.items()))] += 1

    def observe_request(self, *, route: str, method: str, status: int, elapsed_s: float) -> None:
        """Count a request and its time. [s]"""
        self.count("capplan_requests_total", route=route, method=method, status=str(status))
        self._observe("capplan_request_seconds", (("route", route),), elapsed_s)

    def observe_trace(self, elapsed_s: float) -> None:
        """Count a trace and its time. [s]"""
        self._observe("capplan_trace_seconds", (), elapsed_s)

    def _observe(self, name: str, labels: Labels, elapsed_s: float) -> None:
        for bound in BUCKETS_S:
            if elapsed_s <= bound:
                self._buckets[name, labels, bound] += 1
        self._counters[f"{name}_count", labels] += 1
        self._sums[name, labels] += elapsed_s  # type: ignore[assignment]  # a Counter adds floats as well

    def render(self, gauges: Mapping[str, float]) -> str:
        """Return all counters, with the state of the moment."""
        lines: list[str] = []
        for name in sorted({key[0] for key in self._counters if not key[0].endswith("_seconds_count")}):
            lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} counter"]
            lines += [
                f"{n}{_spelt(labels)} {value}" for (n, labels), value in sorted(self._counters.items()) if n == name
            ]
        for name in ("capplan_request_seconds", "capplan_trace_seconds"):
            lines += self._histogram(name)
        typed = ""
        for name, value in {**gauges, "process_start_time_seconds": self._started_s}.items():
            family = name.partition("{")[0]
            lines += [f"# TYPE {family} gauge"] * (family != typed) + [f"{name} {value:.10g}"]
            typed = family
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        lines = [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} histogram"]
        for (counted, labels), total in sorted(self._counters.items()):
            if counted != f"{name}_count":
                continue
            for bound in BUCKETS_S:
                lines.append(
                    f"{name}_bucket{_spelt((*labels, ('le', f'{bound:g}')))} {self._buckets[name, labels, bound]}"
                )
            lines.append(f"{name}_bucket{_spelt((*labels, ('le', '+Inf')))} {total}")
            lines.append(f"{name}_sum{_spelt(labels)} {self._sums[name, labels]:.6f}")
            lines.append(f"{name}_count{_spelt(labels)} {total}")
        return lines


def _spelt(labels: Labels) -> str:
    words = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels)
    return f"{{{words}}}" if words else ""


LOGGER = logging.getLogger("capplan.serve")


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; of an exception only its type and place, because its message may hold what was asked."""
        fields = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                fields["where"] = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        return json.dumps(fields, ensure_ascii=True)


def log(event: str, **fields: object) -> None:
    """Write one line."""
    LOGGER.info(event, extra={"fields": fields})


def start_logging() -> None:
    """Send the service's and the server's logs to stderr, as JSON lines."""
    to_stderr = logging.StreamHandler(sys.stderr)
    to_stderr.setFormatter(JsonFormatter())
    for name in ("capplan.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [to_stderr]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == "capplan.serve" else logging.WARNING)
