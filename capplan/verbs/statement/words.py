"""The one reader of what people write: 50ms, 1..256, 2.11, 3x224x224, KEY=VALUE; for every door.

A `Words` reads a value in any form in which a door receives it (text, a number, a list) and writes it back.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH, BatchChoice, Batches, parse_batches
from capplan.errors import UsageError
from capplan.units import BYTES, BYTES_PER_S, SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.report.charts.look import Drawing


_Text = Annotated[str, Meta(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How the values of a field are read and written.

    Attributes:
        read: returns the value; takes what was given, and the field's name for the message of an error.
        write: returns the words that `read` turns into a value again.
        python: the types that a Python caller may give, for the stub that editors read.
        wire: the type of what JSON holds, for schemas.
        to_wire: returns the value as JSON holds it.
        is_number: text that is a plain number stands for it in a query string, where all is text.
    """

    python: str
    read: Callable[[Any, str], Any]
    write: Callable[[Any], str] = str
    wire: Any = str
    to_wire: Callable[[Any], Any] = lambda value: value
    is_number: bool = False


def _quantity(units: Mapping[str, float]) -> Callable[[Any, str], Any]:
    def read(given: Any, what: str) -> Any:
        return parse_quantity(given, units, what=what) if isinstance(given, str) else given

    return read


def _write_time(value: float) -> str:
    """Write seconds, or days where it is whole days."""
    days = value / SECONDS["d"]
    return f"{days:.12g}d" if days >= 1 and days == int(days) else f"{value:.12g}s"


TIME = Words(
    python="float | str",
    read=_quantity(SECONDS),
    write=_write_time,
    wire=float | _Text,
    is_number=True,
)
"""A time in seconds, or with its unit: 50ms."""

SIZE = Words(
    python="float | str",
    read=_quantity(BYTES),
    write=lambda value: f"{value:.15g}B",
    wire=float | _Text,
    is_number=True,
)
"""A size in bytes, or with its unit: 24GiB."""


def _value_of(kind: str, known: str) -> Callable[[Any, str], Any]:
    """Return a reader of single values as load files hold them."""

    def read(given: Any, what: str) -> Any:
        from capplan.specs.values import ValueReader

        reader = ValueReader(what, what)
        number = _number(given) if isinstance(given, str) else given
        value = getattr(reader, kind)("", given if number is None or kind == "watts" else number)
        if value is None:
            raise UsageError(f"{what}: {given!r} is not {known}")
        return value

    return read


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_COUNTS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}

COUNT = Words(
    read=_quantity(_COUNTS),
    write=lambda value: f"{value:.15g}",
    wire=float | _Text,
    is_number=True,
    python="float | str",
)
"""A number of things, with a decimal prefix where it is long: 15T, 10G (or 10B), 50k."""


def _read_whole(given: Any, what: str) -> Any:
    """Read a count of whole things; what is not one stays as it is, for the field's own check."""
    count = COUNT.read(given, what)
    return int(count) if isinstance(count, float) and count.is_integer() else count


WHOLE_COUNT = replace(COUNT, read=_read_whole, python="int | str", wire=int | _Text)
"""A whole number of things: 1M, 50k."""

_TOKENS = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}
_TOKEN_COUNT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kKmM]?)", re.ASCII)


def _read_tokens(given: Any, what: str) -> Any:
    """Read tokens as vLLM's --max-model-len does: lower case is decimal, upper case binary."""
    if not isinstance(given, str):
        return given
    match = _TOKEN_COUNT.fullmatch(given.strip())
    tokens = float(match[1]) * _TOKENS[match[2]] if match else 0.5
    if tokens != int(tokens):
        raise UsageError(f"{what}: expected a whole number of tokens, such as 8192, 8K or 8k (8,000), not {given!r}.")
    return int(tokens)


TOKENS = Words(python="int | str", read=_read_tokens, wire=Annotated[int, Meta(ge=1, le=10**8)] | _Text, is_number=True)
"""A number of tokens: 8192, 8K (binary) or 8k (decimal)."""

AMOUNT = Words(
    python="float | str",
    read=_value_of("amount", "an amount; write US dollars such as 250000, 250k or 1.2M USD."),
    write=lambda value: f"{value:.15g}",
    wire=float | _Text,
)
"""US dollars: 250000, 250k, 1.2M USD."""


def _read_watts(given: Any, what: str) -> Any:
    return (
        _value_of("watts", "a power; write it with its unit, such as 20 kW.")(given, what)
        if isinstance(given, str)
        else given
    )


WATTS = Words(
    python="float | str", read=_read_watts, write=lambda value: f"{value:.15g}W", wire=float | _Text, is_number=True
)
"""A power in watts, or with its unit: 20kW."""


def _read_share(given: Any, what: str) -> float:
    share: float = _value_of("fraction", "a share; write 95% or 0.95.")(given, what)
    if not 0 < share < 1:
        raise UsageError(f"{what}: {given!r} is not a share; write 95% or 0.95.")
    return share


SHARE = Words(python="float | str", read=_read_share, write=lambda value: f"{value:.12g}", wire=float | _Text)
"""A share between 0 and 1: 95%, 0.95."""


def _read_batches(given: Any, what: str) -> Batches:
    if isinstance(given, Batches):
        return given
    if isinstance(given, str):
        return parse_batches(given, what=what)
    if isinstance(given, int) and not isinstance(given, bool):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, bytes) or not given:
        raise UsageError(f"{what} {given!r} lists no batches; give sizes, or words such as '1..256'.")
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in given):
        return parse_batches(",".join(map(str, given)), what=what)
    if not all(1 <= size <= LARGEST_BATCH for size in given):
        raise UsageError(f"{what} {list(given)!r}: a batch lies between 1 and 2^40.")
    return Batches(choice=BatchChoice.LISTED, sizes=tuple(dict.fromkeys(given)))


def write_batches(batches: Batches) -> str:
    """Return the words of batches: auto, max, 1,8,32 or 1..1024.

    >>> write_batches(parse_batches("1..256")), write_batches(parse_batches("1,8"))
    ('1..256', '1,8')
    """
    if batches.choice is not BatchChoice.LISTED:
        return batches.choice.value
    first, last = batches.sizes[0], batches.sizes[-1]
    span = f"{first}..{last}"
    is_span = len(batches.sizes) > 2 and first < last and parse_batches(span) == batches
    return span if is_span else ",".join(map(str, batches.sizes))


BATCHES = Words(
    python="Sequence[int] | str",
    read=_read_batches,
    write=write_batches,
    wire=Annotated[list[Annotated[int, Meta(ge=1, le=LARGEST_BATCH)]], Meta(min_length=1, max_length=64)] | _Text,
    to_wire=write_batches,
)
"""Batch sizes: a list, or 8, 1,8,32, 1..1024 (powers of two), auto, max."""


def _read_version(given: Any, what: str) -> tuple[int, int]:
    if isinstance(given, float) and str(given).endswith(".1"):
        raise UsageError(f'{what} {given} may be {given} or {given}0; write it as text: "{given}" or "{given}0".')
    if not isinstance(given, str):
        given = ".".join(map(str, given)) if isinstance(given, Sequence) else str(given)
    pieces = given.split("+", maxsplit=1)[0].split(".")
    if len(pieces) < 2 or not all(piece.isascii() and piece.isdecimal() and len(piece) < 5 for piece in pieces[:2]):
        raise UsageError(f"{what} {given!r} is not a PyTorch version; write MAJOR.MINOR, such as 2.11.")
    return int(pieces[0]), int(pieces[1])


TORCH_VERSION = Words(
    python="tuple[int, int] | str",
    read=_read_version,
    write="{0[0]}.{0[1]}".format,
    wire=_Text,
    to_wire="{0[0]}.{0[1]}".format,
)
"""A PyTorch release: 2.11, or 2.11.0+cu130."""


def _read_shape(given: Any, what: str) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, Sequence) or not all(type(size) is int for size in given):
        raise UsageError(f"{what} {given!r} is not a shape; write CxHxW, such as 3x224x224.")
    return "x".join(map(str, given))


SHAPE = Words(
    python="Sequence[int] | str",
    read=_read_shape,
    wire=Annotated[list[Annotated[int, Meta(ge=1)]], Meta(max_length=8)] | _Text,
)
"""The shape of one image without the batch: 3x640x640, or a list of sizes."""


def _read_assignments(given: Any, what: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    values: dict[str, Any] = {}
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{what} holds arguments by name, such as depth=50.")
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"{what} {text!r} is not NAME=VALUE, e.g. {what} depth=50 or {what} act='gelu'.")
        values[name] = _literal(value)
    return values


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def assignment(name: str, value: Any) -> str:
    """Return NAME=VALUE, from which the same value is read again.

    >>> assignment("depth", 50), assignment("act", "gelu"), assignment("act", "1")
    ('depth=50', 'act=gelu', "act='1'")
    """
    is_plain = isinstance(value, str) and _literal(value) == value
    return f"{name}={value}" if is_plain else f"{name}={value!r}"


ASSIGNMENTS = Words(
    python="Mapping[str, Any]",
    read=_read_assignments,
    wire=dict[Annotated[str, Meta(min_length=1, max_length=200)], Any],
    to_wire=dict,
)
"""Arguments by name: a mapping, or texts NAME=VALUE whose values are Python literals, or else texts."""


def _above_zero(read: Callable[[Any, str], Any], example: str) -> Callable[[Any, str], Any]:
    """Return a reader that refuses 0 and what is below."""

    def read_above(given: Any, what: str) -> Any:
        value = read(given, what)
        if isinstance(value, int | float) and not value > 0:
            raise UsageError(f"{what} {given}: write {example}.")
        return value

    return read_above


TIME_LIMIT = replace(TIME, read=_above_zero(TIME.read, "a time above 0, such as 500ms"))
"""A time above 0 in seconds, or with its unit: 500ms."""


def _read_load(given: Any, what: str) -> Any:
    """Read samples per second: 500, or 500/s."""
    if not isinstance(given, str):
        return given
    rate = _number(given.removesuffix("/s"))
    if rate is None:
        raise UsageError(f"{what} {given}: write samples per second, such as 500/s.")
    return rate


LOAD = Words(
    python="float | str",
    read=_above_zero(_read_load, "samples per second, such as 500/s"),
    write=lambda value: f"{value:.15g}/s",
    wire=float | _Text,
    is_number=True,
)
"""A load in samples per second: 500, or 500/s."""

SIZE_LIMIT = replace(SIZE, read=_above_zero(SIZE.read, "a size above 0, such as 4GiB"))
"""A size above 0 in bytes, or with its unit: 4GiB."""

_read_rate = _above_zero(_quantity(BYTES_PER_S), "a rate above 0, such as '900 GB/s'")
RATE = Words(
    python="float | str", read=_read_rate, write=lambda value: f"{value:.15g}B/s", wire=float | _Text, is_number=True
)
"""A bandwidth in bytes per second, or with its unit: 900 GB/s."""


def _read_pixels(given: Any, what: str) -> tuple[int, int]:
    pieces = given.lower().split("x") if isinstance(given, str) else given
    sizes = [str(piece) for piece in pieces] if isinstance(pieces, Sequence) else []
    if len(sizes) != 2 or not all(
        size.isascii() and size.isdigit() and 1 <= int(size[:9]) <= _MOST_PIXELS for size in sizes
    ):
        raise UsageError(f"{what} {given}: write width and height in pixels, such as 1024x768.")
    return int(sizes[0]), int(sizes[1])


_MOST_PIXELS = 32768
PIXELS = Words(
    python="tuple[int, int] | str",
    read=_read_pixels,
    write="{0[0]}x{0[1]}".format,
    wire=_Text,
    to_wire="{0[0]}x{0[1]}".format,
)
"""The width and height of an image in pixels: 1024x768."""


def _read_change(given: Any, what: str) -> float:
    text = str(given).strip()
    try:
        value = float(text.removesuffix("%").strip()) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = float("nan")
    if isinstance(given, bool) or not -1e6 < value < 1e6:
        raise UsageError(f"{what}: {given!r} is not a share; write 5% or 0.05.")
    if value > 1 and not text.endswith("%"):
        raise UsageError(f"{what}: {text} may mean {value:g}% or {100 * value:g}%; write it with the sign %.")
    return value


CHANGE = Words(python="float | str", read=_read_change, write=lambda value: f"{100 * value:.12g}%", wire=float | _Text)
"""A share by which something grows: 50%, 0.5, -10%."""


def _read_token_prices(given: Any, what: str) -> tuple[float, ...]:
    pieces = given.split(",") if isinstance(given, str) else given
    try:
        amounts = [float(piece) for piece in pieces]
    except (ValueError, TypeError):
        amounts = []
    if len(amounts) not in (2, 3) or not all(0 <= amount < 1e6 for amount in amounts) or not sum(amounts) > 0:
        raise UsageError(
            f"{what} {given}: write USD per million input and output tokens, such as 0.6,2.4, or with that of cached "
            "input between them: 0.6,0.06,2.4."
        )
    return tuple(amounts)


TOKEN_PRICES = Words(
    python="tuple[float, ...] | str",
    read=_read_token_prices,
    write=lambda amounts: ",".join(f"{amount:g}" for amount in amounts),
    wire=Annotated[list[float], Meta(min_length=2, max_length=3)] | _Text,
    to_wire=list,
)
"""What an API asks per million input and output tokens in US dollars, that of cached input between: 0.6,0.06,2.4."""


_MOST_LENGTHS, _LONGEST = 100_000, 10**8


def _read_lengths(given: Any, what: str) -> tuple[int, ...]:
    pieces = given.split(",") if isinstance(given, str) else given
    texts = [str(piece).strip() for piece in pieces if str(piece).strip()] if isinstance(pieces, Sequence) else [""]
    if not all(text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= _LONGEST for text in texts):
        raise UsageError(f"{what} {str(given)[:80]!r}: write tokens of samples parted by commas, such as 60,350,1500.")
    if len(texts) > _MOST_LENGTHS:
        raise UsageError(f"{what}: {len(texts):,} lengths are more than {_MOST_LENGTHS:,}; give quantiles of them.")
    return tuple(map(int, texts))


LENGTHS = Words(
    python="Sequence[int] | str",
    read=_read_lengths,
    write=lambda lengths: ",".join(map(str, lengths)),
    wire=Annotated[list[Annotated[int, Meta(ge=1, le=_LONGEST)]], Meta(min_length=1, max_length=_MOST_LENGTHS)] | _Text,
    to_wire=list,
)
"""Tokens of samples that are equally frequent: 60,350,1500."""


def _read_names(given: Any, what: str) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{what} {str(given)[:80]}: write names, parted by commas.")
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


NAMES = Words(python="Sequence[str] | str", read=_read_names, write=",".join, wire=list[_Text] | _Text, to_wire=list)
"""Names in one text, parted by commas."""


PLOT = "FILE.svg|png|pdf|html"
"""What stands for the value of an option that names a chart's file."""


def check_pictures(*paths: Path | None) -> None:
    """Refuse, before anything is computed, a file that no chart can be written to."""
    from importlib.util import find_spec

    from capplan.report.charts.picture import SUFFIXES

    for path in paths:
        if path is None:
            continue
        if path.suffix not in SUFFIXES:
            raise UsageError(f"{path}: plots are written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
        if not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {path.parent}.")
        for package in ("altair", "vl_convert"):
            if find_spec(package) is None:
                raise UsageError(f"{path}: plots need {package}; install it with pip install 'capplan[report]'.")


def checking_pictures(*names: str) -> Callable[[Any, Any], Any]:
    """Return what settles a question: fields of it that name files of charts are checked before anything is
    computed.
    """

    def finalize(question: Any, _look: Any) -> Any:
        check_pictures(*(getattr(question, name) for name in names))
        return question

    return finalize


def pictures(drawings: "Mapping[Path, Drawing]") -> dict[Path, bytes]:
    """Return the contents of charts' files."""
    from capplan.report.charts.picture import picture

    return {path: picture(drawing, suffix=path.suffix) for path, drawing in drawings.items()}
