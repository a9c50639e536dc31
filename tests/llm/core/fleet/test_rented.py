"""Which rented machines hold a deployment: counted by hand."""

import pytest

from capplan.core.gpus.prices import Price
from capplan.llm.core.fleet.rented import best_offer, fast_link_gpus, machines_for
from capplan.llm.core.sharding import Sharding
from tests.llm.core.fleet.fits import rented


def offer(gpus: int, usd: float, *, joined: int = 1, networked: bool = False) -> Price:
    return rented(usd, gpus=gpus, joined=joined, networked=networked)


BOARD = offer(8, 4.0, joined=8, networked=True)


@pytest.mark.parametrize(
    ("sharding", "replicas", "machines"),
    [
        (Sharding(tensor=4), 1, 1),  # half a board is paid whole
        (Sharding(tensor=4), 3, 2),  # two replicas on a board
        (Sharding(tensor=8), 3, 3),
        (Sharding(tensor=2, pipeline=2), 3, 2),
        (Sharding(tensor=8, pipeline=2), 3, 6),  # a stage fills a board
        (Sharding(data=8, expert=8), 2, 2),
        (Sharding(tensor=16), 1, 2),  # leaves the server, timed over the network
    ],
)
def test_whole_boards_are_counted(sharding: Sharding, replicas: int, machines: int) -> None:
    assert machines_for(BOARD, sharding, replicas, fast_gpus=8) == machines


def test_tensor_parallelism_needs_its_gpus_in_one_machine() -> None:
    assert machines_for(offer(1, 0.17), Sharding(tensor=4), 1, fast_gpus=8) is None
    assert machines_for(offer(1, 0.17), Sharding(pipeline=4), 1, fast_gpus=8) == 4


def test_gpus_that_were_timed_over_fast_links_need_them() -> None:
    cards = offer(4, 1.0)
    assert machines_for(cards, Sharding(tensor=2), 1, fast_gpus=2) is None  # timed with a bridge that is not there
    assert machines_for(cards, Sharding(tensor=4), 1, fast_gpus=2) == 1  # timed over PCIe
    bridged = offer(4, 1.0, joined=2)
    assert machines_for(bridged, Sharding(tensor=2), 2, fast_gpus=2) == 1


def test_a_group_larger_than_a_machine_needs_a_known_network() -> None:
    assert machines_for(offer(8, 4.0, joined=8), Sharding(tensor=16), 1, fast_gpus=8) is None


def test_a_group_timed_in_servers_of_eight_does_not_stand_in_smaller_machines() -> None:
    # Sixteen GPUs of machines of four cross the network three times as often as those of two boards.
    assert machines_for(offer(4, 4.0, joined=4, networked=True), Sharding(tensor=16), 1, fast_gpus=8) is None
    assert machines_for(offer(4, 4.0, joined=4, networked=True), Sharding(tensor=16), 1, fast_gpus=4) == 4


def test_the_cheapest_machines_are_those_that_hold_the_fleet() -> None:
    single, board = offer(1, 2.5), offer(8, 4.0, joined=8)
    assert best_offer([single, board], Sharding(tensor=8), 1, fast_gpus=8) == board
    assert best_offer([single, board], Sharding(), 3, fast_gpus=8) == single  # 7.5 against 32 USD/h
    assert best_offer([single], Sharding(tensor=2), 1, fast_gpus=8) is None


def test_bridges_count_where_an_offer_has_them() -> None:
    assert fast_link_gpus([offer(4, 1.0)], in_one_server=2, is_bridged=True) == 1
    assert fast_link_gpus([offer(4, 1.0, joined=2)], in_one_server=2, is_bridged=True) == 2
    assert fast_link_gpus([], in_one_server=2, is_bridged=True) == 2
    assert fast_link_gpus([offer(1, 1.0)], in_one_server=8, is_bridged=False) == 8


def test_cards_of_a_server_are_not_spread_over_smaller_machines() -> None:
    # Two cards are timed over the PCIe of one server of eight, so that machines of one card and a network do not hold
    # them; sixteen are timed over the network between servers of eight, which two machines of eight are.
    one, eight = (offer(gpus, 1.0, networked=True) for gpus in (1, 8))
    assert machines_for(one, Sharding(tensor=2), 1, fast_gpus=1) is None
    assert machines_for(one, Sharding(tensor=16), 1, fast_gpus=1) is None
    assert machines_for(eight, Sharding(tensor=16), 1, fast_gpus=1) == 2
