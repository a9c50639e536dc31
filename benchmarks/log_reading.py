"""How fast request logs are read: megabytes a CPU minute, and the memory that it takes, by form of log.

`python benchmarks/log_reading.py [MEGABYTES]` makes a log of each form in a process of its own, which is read through a
pipe: neither disk nor memory bounds how long it is. Lines repeat after the first megabyte.
"""

import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from capplan.app.observed.logs import read_logs

_BEGIN_S = 1_764_547_200.0
_WORDS = "word " * 400


def _azure(place: int, draw: random.Random) -> str:
    at = datetime.fromtimestamp(_BEGIN_S + place * 0.05, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return f"{at},{draw.randrange(100, 4000)},{draw.randrange(10, 800)}"


def _usage(place: int, draw: random.Random) -> str:
    usage = {"prompt_tokens": draw.randrange(100, 4000), "completion_tokens": draw.randrange(10, 800)}
    message = {"message": {"role": "assistant", "content": _WORDS}}
    return json.dumps({"created": int(_BEGIN_S + place * 0.05), "choices": [message], "usage": usage})


def _envoy(place: int, draw: random.Random) -> str:
    at = datetime.fromtimestamp(_BEGIN_S + place * 0.05, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    return f'[{at}Z] "POST /v1/chat HTTP/2" 200 - 154 2000 {draw.randrange(20, 900)} 90 "-" "curl" "id" "host" "-"'


_FORMS: dict[str, tuple[str, Callable[[int, random.Random], str]]] = {
    "Azure trace": ("TIMESTAMP,ContextTokens,GeneratedTokens\n", _azure),
    "usage records of 2 kB": ("", _usage),
    "Envoy access log": ("", _envoy),
}


def _lines(head: str, make: Callable[[int, random.Random], str], size_bytes: float) -> Iterator[str]:
    draw, written, place = random.Random(1), 0, 0
    yield head
    while written < size_bytes:
        line = make(place, draw) + "\n"
        written += len(line)
        place += 1
        yield line


def _write(writer: int, reader: int, head: str, make: Callable[[int, random.Random], str], size_mb: float) -> None:
    os.close(reader)
    block = "".join(_lines("", make, min(1.0, size_mb) * 1e6)).encode()
    with os.fdopen(writer, "wb") as stream:
        stream.write(head.encode())
        for _ in range(round(size_mb)):
            stream.write(block)


def main() -> None:
    """Print a line for each form."""
    size_mb = float(sys.argv[1]) if len(sys.argv) > 1 else 50.0
    for name, (head, make) in _FORMS.items():
        reader, writer = os.pipe()
        source = get_context("fork").Process(target=_write, args=(writer, reader, head, make, size_mb))
        source.start()
        os.close(writer)
        before = time.process_time()
        observed = read_logs([Path(f"/dev/fd/{reader}")])
        cpu_s = time.process_time() - before
        os.close(reader)
        source.join()
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        rate = size_mb / cpu_s * 60
        print(f"{name}: {rate:,.0f} MB a CPU minute, {observed.arrivals.total:,.0f} requests, {memory_mb:.0f} MB peak")


if __name__ == "__main__":
    main()
