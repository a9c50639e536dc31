"""Which options may be recommended, and which of them with another offer of the same GPU."""

from dataclasses import replace

import pytest
from msgspec import structs

from capplan.core.economics.concerns import Concern
from capplan.report.procurement.choosable import choosable, choosable_at_another_price
from capplan.shapes.procurement import is_bought
from tests.report.procurement.made_up import made_report

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("concerns", "here", "elsewhere"),
    [
        ((), True, True),
        ((Concern.OLD_PRICE,), True, True),  # ranked by what it may have risen to
        ((Concern.OUTDATED_PRICE,), False, True),
        ((Concern.HEARSAY_PRICE, Concern.UNDATED_PRICE), False, True),
        ((Concern.SPEED_FROM_SPEC_SHEET,), False, False),
        ((Concern.OLD_PRICE, Concern.END_OF_SALE), False, False),
    ],
)
def test_another_offer_may_be_taken_where_only_the_price_is_weak(
    concerns: tuple[Concern, ...], *, here: bool, elsewhere: bool
) -> None:
    report = made_report("image-service")
    model = report.models[0]
    pool = choosable(report, model)
    sound, other = [option for option in model.options if not is_bought(option) and option.key in pool][:2]
    sound = structs.replace(sound, concerns=())
    weak = structs.replace(other, concerns=tuple(map(str, concerns)))
    changed = replace(model, options=(sound, weak))
    assert (weak.key in choosable(report, changed)) is here
    assert (weak.key in choosable_at_another_price(report, changed)) is elsewhere
