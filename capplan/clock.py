"""The day and the time that an answer states, repeatable where SOURCE_DATE_EPOCH is set."""

import os
from datetime import UTC, date, datetime


def today() -> date:
    """Return the day, or that of SOURCE_DATE_EPOCH, by which builds are made repeatable."""
    return moment()[0]


def moment() -> tuple[date, int]:
    """Return the day and the seconds since 1970: of SOURCE_DATE_EPOCH if that is a day, else of today's midnight (UTC).

    Midnight makes two reports of one day equal to the last byte.
    """
    if (stated := _stated()) is not None:
        return stated.date(), int(stated.timestamp())
    day = date.today()
    return day, int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def now() -> datetime:
    """Return the time, or that of SOURCE_DATE_EPOCH if that is one."""
    return _stated() or datetime.now(tz=UTC)


def _stated() -> datetime | None:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch.isdecimal() or len(epoch) > 12 or int(epoch) > _LAST_SECOND:
        return None
    return datetime.fromtimestamp(int(epoch), tz=UTC)


_LAST_SECOND = 253_402_300_799
"""9999-12-31 23:59:59 UTC, the last that a date holds. [s]"""
