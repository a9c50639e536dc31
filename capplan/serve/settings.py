"""How a service runs: address, access, data, and limits on what a request may cost."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from capplan.errors import UsageError
from capplan.files import read_file
from capplan.processes.system import cores

SHORTEST_TOKEN = 16
"""Fewest characters of an access token: shorter ones can be guessed."""
LONGEST_TOKEN_BYTES = 4096
"""Most that is read of a token's file. [bytes]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """Limits on what requests may cost.

    Attributes:
        planners: Processes that answer questions from traces.
        tracers: Models that are traced at once; 0 answers from uploaded and kept traces alone.
        waiting: Models that may wait to be traced; beyond, requests are refused with 429.
        questions: Questions that may wait for a process; beyond, requests are refused with 429.
        trace_s: Time of the processor after which a trace is stopped. [s]
        trace_bytes: Memory that a trace may add to that of its libraries. [bytes]
        plan_s: Time that a question may wait for a process, and that its answer may take afterwards. [s]
        plan_bytes: Memory of a process that answers questions. [bytes]
        upload_bytes: Largest body of a request that uploads a trace; the most that is kept of a model's file. [bytes]
        model_bytes: Largest body of a request that uploads a model's file, whose weights are not kept. [bytes]
        uploads: Model files that may arrive at once; beyond, requests are refused with 429. Each is spooled to disk.
        question_bytes: Largest body of any other request. [bytes]
        kept_upload_bytes: Size of all uploaded traces together; the oldest are removed beyond it. [bytes]
    """

    planners: int = 2
    tracers: int = 4
    waiting: int = 16
    questions: int = 256
    trace_s: float = 300.0
    trace_bytes: int = 8 * 2**30
    plan_s: float = 60.0
    plan_bytes: int = 4 * 2**30
    upload_bytes: int = 16 * 2**20
    model_bytes: int = 2**31
    uploads: int = 4
    question_bytes: int = 2**20
    kept_upload_bytes: int = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a service runs.

    Attributes:
        hosts: Names, besides this machine's own, under which requests may address the service.
        token: What requests must present; None for a service without access control.
        is_insecure: Bind beyond the loopback address without a token.
        prices: Files of own prices, laid over the built-in ones.
        specs: Folders and files of own GPU specs.
        results: A folder of results of `capplan sweep`, offered on the page.
        state: The folder in which uploaded traces are kept.
        allows_hub: Look up models that requests name on the Hugging Face Hub.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()
    token: str | None = None
    is_insecure: bool = False
    allows_hub: bool = False
    prices: tuple[Path, ...] = ()
    specs: tuple[Path, ...] = ()
    results: Path | None = None
    state: Path
    limits: ServiceLimits = ServiceLimits()

    def __post_init__(self) -> None:
        """Refuse to be reachable from other machines without access control."""
        if not is_loopback(self.host) and self.token is None and not self.is_insecure:
            raise UsageError(
                f"--host {self.host} can be reached from other machines: add --token-file FILE, or --insecure where "
                "something else controls access."
            )


def is_loopback(host: str) -> bool:
    """Return True if an address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """Read the access token from a file of one line."""
    try:
        token = read_file(path, at_most=LONGEST_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--token-file {path}: cannot be read ({getattr(error, 'strerror', None) or error})."
        ) from error
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"--token-file {path}: holds no token; write one line of at least {SHORTEST_TOKEN} letters and digits, as "
            "`openssl rand -hex 32` makes it."
        )
    return token


def default_planners() -> int:
    """Return how many processes answer questions: one for each core that this process may use, at most eight."""
    return min(8, cores())
