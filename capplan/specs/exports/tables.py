"""Read bills in the form of the FOCUS specification, and the tables of instances.vantage.sh."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capplan.core.gpus.prices import Term
from capplan.specs.exports.rows import NO_GPU, WINDOWS, Found, LeftOut, Reading, Row, amount, commitment
from capplan.specs.foreign_numbers import read_number

FOCUS_COLUMNS = ("BilledCost", "ChargePeriodStart", "PricingUnit")
_MACHINE_COLUMNS = (
    "SkuPriceDetails", "x_SkuDetails", "x_InstanceType", "SkuMeter", "x_SkuMeterName", "x_SkuDescription",
    "ChargeDescription", "ResourceType", "ResourceName",
)  # fmt: skip
"""Where a bill names the machine: the property InstanceType of `SkuPriceDetails`, or the seller's own columns."""
_PRICE_COLUMNS = ("ContractedUnitPrice", "ListUnitPrice")
_PRICING = {"standard": Term.ON_DEMAND, "dynamic": Term.SPOT}


def read_focus(head: Sequence[str], table: Iterator[list[str]], reading: Reading) -> Iterator[Found]:
    """Read a bill in the FOCUS form (FinOps Open Cost and Usage Specification 1.0 to 1.2): what the buyer pays.

    The unit price is the contracted one, which holds negotiated discounts, else the list's. Of a machine, region and
    term the newest charge stands for all.
    """
    newest: dict[tuple[str, ...], Row] = {}
    repeated = 0
    for cells in table:
        found = _charge(dict(zip(head, cells, strict=False)), reading)
        if isinstance(found, LeftOut):
            yield found
            continue
        key = (found["provider"], found["instance"], found["region"], found["term"])
        repeated += key in newest
        if key not in newest or found["date"] > newest[key]["date"]:
            newest[key] = found
    if repeated:
        yield LeftOut("an older charge for the same machine", repeated)
    yield from newest.values()


def _charge(row: Row, reading: Reading) -> Found:
    if row.get("ChargeCategory", "Usage").lower() != "usage":
        return LeftOut("no charge for usage")
    named = (row.get("ServiceProviderName") or row.get("ProviderName") or row.get("PublisherName") or "").lower()
    provider = reading.providers.canonical(named)
    words = " ".join(row.get(name, "") for name in _MACHINE_COLUMNS)
    machine = reading.machine_in(provider, words)
    if machine is None:
        return LeftOut(NO_GPU)
    if "windows" in words.lower():
        return LeftOut(WINDOWS)
    if not row["PricingUnit"].lower().rstrip("s").endswith(("hour", "hr")):
        return LeftOut(f"priced by {row['PricingUnit'] or 'no unit'}")
    term = _PRICING.get(row.get("PricingCategory", "Standard").lower() or "standard")
    if term is None or row.get("CommitmentDiscountId"):
        return LeftOut("usage that a commitment covers, whose length a bill does not state")
    price = next((read_number(row[name]) for name in _PRICE_COLUMNS if row.get(name)), 0.0)
    offer = reading.offer(machine, row.get("RegionId") or row.get("RegionName") or "any", term, price, {})
    currency = row.get("PricingCurrency") or row.get("BillingCurrency", "")
    return {**offer, "currency": currency, **reading.dated(row["ChargePeriodStart"]), "note": "from a bill"}


_VANTAGE_TERMS = {
    "yrTerm1Standard.noUpfront": 1, "yrTerm1Standard.partialUpfront": 1, "yrTerm1Standard.allUpfront": 1,
    "yrTerm3Standard.noUpfront": 3, "yrTerm3Standard.partialUpfront": 3, "yrTerm3Standard.allUpfront": 3,
}  # fmt: skip
_VANTAGE_UPFRONT = {"noUpfront": 0.0, "partialUpfront": 50.0, "allUpfront": 100.0}
_SYSTEM = "linux"


def read_vantage(instances: Sequence[Mapping[str, Any]], reading: Reading) -> Iterator[Found]:
    """Read `instances.json` of instances.vantage.sh: Linux on demand, spot and standard reservations of each region.

    Its prices of reservations are by the hour, with what is paid at once spread over the term.
    """
    for instance in instances:
        name = instance["instance_type"]
        known = [
            machine for provider in ("aws", "azure", "gcp") if (machine := reading.providers.machine(provider, name))
        ]
        if not known:
            yield LeftOut(NO_GPU)
            continue
        for region, systems in instance["pricing"].items():
            if _SYSTEM not in systems:
                yield LeftOut(WINDOWS)
                continue
            prices = systems[_SYSTEM]
            plain = reading.offer(known[0], region, Term.ON_DEMAND, 0, reading.dated())
            if (usd := _positive(prices.get("ondemand"))) is not None:
                yield {**plain, "price": f"{usd:.10g}"}
            if (usd := _positive(prices.get("spot_avg"))) is not None:
                low, high = _positive(prices.get("spot_min")), _positive(prices.get("spot_max"))
                zones = {} if low is None or high is None else {"zones": f"{low:.10g} {high:.10g}"}
                yield {**plain, "term": Term.SPOT.value, "price": f"{usd:.10g}", **zones}
            for key, price in (prices.get("reserved") or {}).items():
                years = _VANTAGE_TERMS.get(key)
                if years is None:
                    yield LeftOut("a convertible reservation or a savings plan of another length")
                elif (usd := _positive(price)) is not None:
                    share = _VANTAGE_UPFRONT[key.partition(".")[2]]
                    yield {**plain, **commitment(usd, 0, years), **({"upfront": f"{share:g}"} if share else {})}


def _positive(value: Any) -> float | None:
    """Return a price; None where the table says N/A or has none."""
    if value in (None, "", "N/A"):
        return None
    usd = amount(value)
    return usd if usd > 0 else None
