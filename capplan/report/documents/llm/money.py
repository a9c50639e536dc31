"""The money and the hand-over of a planned fleet as typed documents. US dollars, joules, years."""

from typing import Annotated

import msgspec
from msgspec import Meta

from capplan.core.economics.cost import OwnedCost
from capplan.core.gpus.prices import Term
from capplan.core.numbers import Interval
from capplan.core.serving_engines import Engine
from capplan.llm.core.fleet.launch import Launch, LaunchOption
from capplan.llm.core.fleet.money import ApiComparison, FleetMoney, FleetYear, PaymentOption

_JOULES_PER_KWH = 3.6e6


class PaymentDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One way to pay for the fleet; `usd_per_year` is the equivalent annual cost, `yearly_usd` begins with day one."""

    term: Term
    usd_per_gpu: float
    seller: str
    day: str
    is_marketplace: bool
    usd_per_year: float
    initial_usd: float
    yearly_usd: tuple[float, ...]
    usd_per_million_output_tokens: float


class MoneyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the recommended deployment costs over the years, the cheapest way to pay first."""

    growth_per_year_fraction: float
    years: tuple[FleetYear, ...]
    counted_years: int
    rented_hours_per_year: Annotated[float, Meta(description="hours for which machines rented by the hour are paid")]
    payments: tuple[PaymentDocument, ...]
    gpu_power_w: Annotated[Interval | None, Meta(description="mean draw of all GPUs at the load, without hosts")]
    joules_per_output_token: float | None
    kwh_per_million_output_tokens: float | None
    usd_per_kwh: float
    pue: float
    api: ApiComparison | None


class LaunchDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The command that starts one replica, with the reason of each option, and the files that it reads."""

    engine: Engine
    command: str
    arguments: tuple[str, ...]
    options: tuple[LaunchOption, ...]
    files: dict[str, str]
    port: int
    notes: tuple[str, ...]


def money_document(money: FleetMoney) -> MoneyDocument:
    """Return the money of a fleet as a document.

    Args:
        money: The money of the recommended deployment.
    """
    joules = money.joules_per_output_token
    return MoneyDocument(
        growth_per_year_fraction=money.growth_fraction,
        years=money.years,
        counted_years=money.counted_years,
        rented_hours_per_year=money.paid_hours,
        payments=tuple(map(_payment, money.payments)),
        gpu_power_w=None if money.energy is None else money.energy.power_w,
        joules_per_output_token=joules,
        kwh_per_million_output_tokens=None if joules is None else joules * 1e6 / _JOULES_PER_KWH,
        usd_per_kwh=money.usd_per_kwh,
        pue=money.pue,
        api=money.api,
    )


def _payment(each: PaymentOption) -> PaymentDocument:
    cost = each.cost
    return PaymentDocument(
        term=each.term,
        usd_per_gpu=each.usd_per_gpu,
        seller=each.seller,
        day=each.day,
        is_marketplace=each.is_marketplace,
        usd_per_year=each.usd_per_year,
        initial_usd=cost.initial if isinstance(cost, OwnedCost) else 0.0,
        yearly_usd=tuple(cost.yearly),
        usd_per_million_output_tokens=each.usd_per_million_output_tokens,
    )


def launch_document(launch: Launch) -> LaunchDocument:
    """Return a launch command with its explained options as a document.

    Args:
        launch: The command of one replica.
    """
    return LaunchDocument(
        engine=launch.engine,
        command=launch.command,
        arguments=launch.arguments,
        options=launch.options,
        files=dict(launch.files),
        port=launch.port,
        notes=launch.notes,
    )
