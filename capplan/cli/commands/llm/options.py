"""Options that commands about language models share, and their words turned into types."""

from typing import Annotated

import typer

from capplan.errors import UsageError

LlmModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name of `capplan llm models`, hf:config.json, hf:FOLDER, hf:org/name of the local cache, FILE.gguf.",
        show_default=False,
    ),
]
TensorOption = Annotated[int, typer.Option("--tp", min=1, help="GPUs that share every matrix.")]
PipelineOption = Annotated[int, typer.Option("--pp", min=1, help="Pipeline stages.")]
ExpertOption = Annotated[int, typer.Option("--ep", min=1, help="GPUs among which whole experts are distributed.")]
DataOption = Annotated[int, typer.Option("--dp", min=1, help="Ranks of attention data parallelism.")]
EngineOption = Annotated[str, typer.Option(help="vllm, sglang, trtllm or llama.cpp.")]
VersionOption = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Version of the engine, such as 0.19; the newest by default.")
]
MOST_CLIENTS = 65536


def parse_clients(text: str) -> tuple[int, ...]:
    """Read numbers of clients: 8, 1,8,32 or 1..256 for powers of two.

    Raises:
        UsageError: The text is none of these.
    """
    try:
        if ".." in text:
            low, high = (int(part) for part in text.split(".."))
            clients = _powers(low, high)
        else:
            clients = [int(part) for part in text.split(",")]
    except ValueError:
        clients = []
    if not clients or not all(1 <= each <= MOST_CLIENTS for each in clients):
        raise UsageError(f"--concurrency {text}: write 8, 1,8,32 or 1..256, each from 1 to {MOST_CLIENTS}.")
    return tuple(sorted(set(clients)))


def _powers(low: int, high: int) -> list[int]:
    """Return the ends and the powers of two between."""
    if not 1 <= low <= high:
        return []
    powers = [1 << power for power in range(high.bit_length()) if low <= 1 << power <= high]
    return [low, *powers, high]


def parse_link(text: str | None) -> float | None:
    """Read the bandwidth of a link. [bytes/s]

    Raises:
        UsageError: The text is not a rate.
    """
    if text is None:
        return None
    from capplan.units import BYTES_PER_S, parse_quantity

    rate = parse_quantity(text, BYTES_PER_S, what="--link")
    if rate <= 0:
        raise UsageError(f"--link {text}: write a rate above 0, such as '900 GB/s'.")
    return rate
