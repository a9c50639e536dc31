"""Structured logs: one JSON object a line on stderr, of requests by their route; never of what they ask or hold."""

import json
import logging
import sys
from datetime import UTC, datetime

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
