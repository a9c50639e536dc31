"""Read numbers as people and programs of other countries write them; what may mean two numbers is refused."""

import re
import unicodedata

_LONGEST = 60
_SAME = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'", "٬": "'", "٫": ".", "，": ",", "．": "."})
"""Blanks, apostrophes and separators of other scripts, by what they mean here."""
_DOLLARS = re.compile(r"(?:US\$|USD|\$) ?(?P<behind>[^$]+)|(?P<before>[^$]+?) ?(?:US\$|USD|\$)")
_PLAIN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_AMBIGUOUS = re.compile(r"(\d{1,3}),(\d{3})")
_POINT_AMONG_COMMAS = re.compile(r"([1-9]\d{0,2})\.(\d{3})")
_DECIMAL_COMMA = re.compile(r"\d*,\d+")
_GROUPED = tuple(
    re.compile(rf"(?P<whole>[1-9]\d{{0,2}}(?:{group}\d{{3}})+)(?:{point}(?P<fraction>\d+))?")
    for group, point in ((",", r"\."), (r"\.", ","), (" ", "[.,]"), ("'", "[.,]"))
)


_CURRENCY = re.compile(r"(?:(?P<before>[€£]|EUR|GBP|CHF) ?(?P<behind>.+)|(?P<amount>.+?) ?(?P<after>[€£]|EUR|GBP|CHF))")
_SIGNS = {"€": "EUR", "£": "GBP"}


def split_currency(text: str) -> tuple[str, str | None]:
    """Return an amount without the sign or code of its currency, and that currency; None where none but $ stands."""
    match = _CURRENCY.fullmatch(text.translate(_SAME).strip())
    if match is None:
        return text, None
    sign = match["before"] or match["after"]
    return match["behind"] or match["amount"], _SIGNS.get(sign, sign)


def read_number(text: str, *, in_dollars: bool = False, decimal_comma: bool | None = False) -> float:
    """Read a number of at least 0: 1234.5, 1,234.50, 1.234,50, 1 234,50, 1'234.50, 1234,5, 1.2e3, in any digits.

    A point alone is a decimal point. A comma alone before three digits may be either, and is refused.

    Args:
        text: the cell of a table.
        in_dollars: a dollar sign or USD may stand before or behind.
        decimal_comma: the table is of a country that writes a comma before decimals: one alone is that, and a point
            alone before three digits may be either. None: it is not known, and either before three digits is refused.

    Raises:
        ValueError: it is no such number, or may mean two; the message follows the name of what is read.
    """
    given = text.translate(_SAME).strip()
    given = "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in given)
    if in_dollars and (match := _DOLLARS.fullmatch(given)):
        given = match["behind"] or match["before"]
    if len(given) > _LONGEST:
        raise ValueError(f"must be a number, not {len(given):,} characters")
    if foreign := [sign for sign in given if unicodedata.category(sign) == "Sc"]:
        raise ValueError(f"{text!r} has the sign {foreign[0]}; write plain digits, and convert a price to USD")
    sure = "0" if decimal_comma is None else ""  # four decimals can be no thousands
    if decimal_comma is not False and (match := _POINT_AMONG_COMMAS.fullmatch(given)):
        second = f"{match[1]},{match[2]}" if decimal_comma else f"{match[1]}.{match[2]}{sure}"
        raise ValueError(f"{text!r} may mean {match[1]}{match[2]} or {second}; write one of these")
    if _PLAIN.fullmatch(given):
        return float(given)
    if decimal_comma and _DECIMAL_COMMA.fullmatch(given):
        return float(given.replace(",", "."))
    if match := _AMBIGUOUS.fullmatch(given):
        raise ValueError(
            f"{text!r} may mean {int(match[1] + match[2])} or {match[1]}.{match[2]}{sure}; write one of these"
        )
    if _DECIMAL_COMMA.fullmatch(given):
        return float(given.replace(",", "."))
    for grouped in _GROUPED:
        if match := grouped.fullmatch(given):
            return float(re.sub(r"\D", "", match["whole"]) + "." + (match["fraction"] or "0"))
    raise ValueError(f"must be a number above 0, not {text!r}")
