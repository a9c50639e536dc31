"""The shipped prices name the GPU that their instance names."""

import pytest

from capplan.specs import load_gpus
from capplan.specs.prices import load_prices
from tests.seen import at_least

pytestmark = pytest.mark.slow


def plain(name: str) -> str:
    return name.lower().removeprefix("nvidia ").removeprefix("geforce ").strip()


def test_an_instance_called_like_a_gpu_holds_that_gpu() -> None:
    # One source lists "RTX A4000" and was read as an A40, a card of three times the memory.
    gpus = load_gpus()
    ids: dict[str, set[str]] = {}
    for gpu in gpus.values():
        ids.setdefault(plain(gpu.name), set()).add(gpu.id)
    called = [
        (price, named)
        for price in load_prices(gpus).hourly
        if price.instance and (named := ids.get(plain(price.instance)))
    ]
    wrong = [(price.provider, price.instance) for price, named in at_least(50, called) if price.gpu not in named]
    assert wrong == []
