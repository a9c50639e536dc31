"""Options that commands about language models share, and their words turned into types."""

from typing import TYPE_CHECKING, Annotated

import typer

from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.llm.core.fleet.money import ApiPrice
    from capplan.llm.core.simulation.load_answer import LatencyLimits

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


def parse_rates(text: str) -> tuple[float, ...]:
    """Read request rates: 2, 0.5,1,2 or 1..16 for doublings. [1/s]

    Raises:
        UsageError: The text is none of these, or a rate is not above 0.
    """
    try:
        if ".." in text:
            low, high = (float(part) for part in text.split(".."))
            rates = _doublings(low, high)
        else:
            rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or not all(0 < each <= MOST_RATE_PER_S for each in rates):
        raise UsageError(
            f"--rate {text}: write 2, 0.5,1,2 or 1..16, each above 0 and at most {MOST_RATE_PER_S:g} per s."
        )
    return tuple(sorted(set(rates)))


MOST_RATE_PER_S = 100_000.0


def _doublings(low: float, high: float) -> list[float]:
    rates: list[float] = []
    while 0 < low <= high and len(rates) < 64:
        rates.append(low)
        low *= 2
    return [*rates, high] if rates else []


def parse_limits(
    max_ttft: str | None, max_tpot: str | None, max_e2e: str | None, *, percentile: str = "mean"
) -> "LatencyLimits":
    """Read limits such as "1s" and "40ms".

    Args:
        max_ttft: Limit of the time to first token, in the user's words.
        max_tpot: Limit of the time per output token.
        max_e2e: Limit of a whole answer.
        percentile: Of which requests the limits are: "mean", or 50, 90, 95, 99.

    Raises:
        UsageError: One of them is not a time above 0, or there is no such percentile.
    """
    from capplan.llm.core.simulation.load_answer import LatencyLimits, Statistic
    from capplan.units import SECONDS, parse_quantity

    def read(text: str | None, what: str) -> float | None:
        if text is None:
            return None
        value = parse_quantity(text, SECONDS, what=what)
        if value <= 0:
            raise UsageError(f"{what} {text}: write a time above 0, such as 500ms.")
        return value

    named = {each.value.lstrip("p"): each for each in Statistic}
    if percentile.lstrip("p") not in named:
        raise UsageError(f"--percentile {percentile}: write one of mean, 50, 90, 95 and 99.")
    return LatencyLimits(
        ttft_s=read(max_ttft, "--max-ttft"),
        tpot_s=read(max_tpot, "--max-tpot"),
        e2e_s=read(max_e2e, "--max-e2e"),
        statistic=named[percentile.lstrip("p")],
    )


def parse_day(text: str | None) -> tuple[float, ...]:
    """Read the shape of a day: numbers in any unit, one for each part of 24 hours, such as 24 hourly counts.

    Raises:
        UsageError: The text holds no such numbers.
    """
    if text is None:
        return ()
    try:
        parts = tuple(float(part) for part in text.split(","))
    except ValueError:
        parts = ()
    if not 2 <= len(parts) <= 96 or not all(0 <= part < 1e12 for part in parts) or not sum(parts) > 0:
        raise UsageError(f"--daily {text}: write 2 to 96 numbers of at least 0, one for each part of the day: 1,3,5,2.")
    return parts


def parse_share(text: str, *, what: str) -> float:
    """Read 0.5 or 50% as a share.

    Args:
        text: The user's words.
        what: The option.

    Raises:
        UsageError: The text is neither.
    """
    words = text.strip()
    try:
        value = float(words.removesuffix("%").strip()) / (100.0 if words.endswith("%") else 1.0)
    except ValueError:
        value = float("nan")
    if not -1e6 < value < 1e6:
        raise UsageError(f"{what} {text}: write a share such as 50% or 0.5.")
    return value


def parse_api_price(text: str | None) -> "ApiPrice | None":
    """Read the price of an API: USD per million input and per million output tokens, such as 0.6,2.4.

    Raises:
        UsageError: The text is not two amounts of at least 0, one of them above.
    """
    from capplan.llm.core.fleet.money import ApiPrice

    if text is None:
        return None
    try:
        amounts = [float(part) for part in text.split(",")]
    except ValueError:
        amounts = []
    if len(amounts) != 2 or not all(0 <= amount < 1e6 for amount in amounts) or not sum(amounts) > 0:
        raise UsageError(f"--api-price {text}: write USD per million input and output tokens, such as 0.6,2.4.")
    return ApiPrice(usd_per_million_input=amounts[0], usd_per_million_output=amounts[1])


def parse_image_size(text: str) -> tuple[int, int]:
    """Read the size of an image, such as 1024x768. [pixels]

    Raises:
        UsageError: The text is not two whole numbers from 1 to 32768.
    """
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and 1 <= int(part) <= 32768 for part in parts):
        raise UsageError(f"--image-size {text}: write width and height in pixels, such as 1024x768.")
    return int(parts[0]), int(parts[1])
