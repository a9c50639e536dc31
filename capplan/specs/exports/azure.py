"""Read the answers of Azure's retail price API."""

from collections.abc import Iterator, Mapping
from typing import Any

from capplan.core.gpus.prices import Term
from capplan.specs.exports.rows import (
    HOURS_OF_A_YEAR,
    NO_GPU,
    WINDOWS,
    YEARS_OF_TERM,
    Found,
    LeftOut,
    Reading,
    Row,
    amount,
    newest_start,
)

_YEARS = {"1 Year": 1, "3 Years": 3}


def read_retail_prices(document: Mapping[str, Any], reading: Reading) -> Iterator[Found]:
    """Read https://prices.azure.com/api/retail/prices: a reservation is priced for its whole term.

    An answer is not older than the newest day from which one of its prices holds. Savings plans stand in the row of the
    price that they lower (API version 2023-01-01-preview), and are commitments like reservations.
    """
    items = document["Items"]
    dated = reading.dated(not_before=newest_start(item.get("effectiveStartDate") for item in items))
    for item in items:
        yield from _item(item, reading, dated)


def _item(item: Mapping[str, Any], reading: Reading, dated: Row) -> Iterator[Found]:
    name = item.get("skuName", "")
    machine = reading.providers.machine("azure", item.get("armSkuName") or "")
    if machine is None:
        yield LeftOut(NO_GPU)
        return
    if "Windows" in item.get("productName", ""):
        yield LeftOut(WINDOWS)
        return
    if "Low Priority" in name:
        yield LeftOut("low priority, which Azure sells to batch accounts alone")
        return
    price, currency = amount(item["retailPrice"]), {"currency": item.get("currencyCode", "")}
    region = item["armRegionName"]
    if item.get("type") == "Reservation":
        years = _YEARS.get(item["reservationTerm"])
        if years is None:
            yield LeftOut(f"a commitment of {item['reservationTerm']}")
            return
        term = YEARS_OF_TERM[years]
        yield {**reading.offer(machine, region, term, price / (years * HOURS_OF_A_YEAR), dated), **currency}
        return
    if item.get("type") != "Consumption" or item.get("unitOfMeasure") != "1 Hour":
        yield LeftOut("priced otherwise than by the hour")
        return
    yield {**reading.offer(machine, region, Term.SPOT if "Spot" in name else Term.ON_DEMAND, price, dated), **currency}
    for plan in item.get("savingsPlan") or ():
        years = _YEARS.get(plan["term"])
        if years is None:
            yield LeftOut(f"a savings plan of {plan['term']}")
            continue
        row = reading.offer(machine, region, YEARS_OF_TERM[years], amount(plan["retailPrice"]), dated)
        yield {**row, **currency, "note": "savings plan"}
