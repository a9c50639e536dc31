"""The day that a report states, repeatable where SOURCE_DATE_EPOCH is set."""

import os
from datetime import UTC, date, datetime


def today() -> date:
    """Return the day, or that of SOURCE_DATE_EPOCH, by which builds are made repeatable."""
    return moment()[0]


def moment() -> tuple[date, int]:
    """Return the day and the seconds since 1970: of SOURCE_DATE_EPOCH if that is a day, else of today's midnight (UTC).

    Midnight makes two reports of one day equal to the last byte.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdecimal() and len(epoch) < 13 and int(epoch) <= _LAST_SECOND:
        return datetime.fromtimestamp(int(epoch), tz=UTC).date(), int(epoch)
    day = date.today()
    return day, int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


_LAST_SECOND = 253_402_300_799
"""9999-12-31 23:59:59 UTC, the last that a date holds. [s]"""
