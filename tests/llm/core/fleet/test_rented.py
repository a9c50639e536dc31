"""Which servers hold a deployment: counted by hand."""

from dataclasses import replace

import pytest

from capplan.core.gpus.machines import GpuServer
from capplan.core.gpus.prices import Price
from capplan.llm.core.fleet.rented import best_offer, machines_for, server_for, servers_of_replica
from capplan.llm.core.sharding import Sharding
from tests.llm.core.fleet.fits import rented


def offer(gpus: int, usd: float, *, joined: int = 1, networked: bool = False) -> Price:
    return rented(usd, gpus=gpus, joined=joined, networked=networked)


def server(gpus: int, *, joined: int = 1, network: float | None = None) -> GpuServer:
    return GpuServer(gpus=gpus, joined=joined, network_bytes_per_s=network)


BOARD = server(8, joined=8, network=50e9)
CARDS = server(8, network=50e9)


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
    assert machines_for(BOARD, sharding, replicas, timed=BOARD) == machines


@pytest.mark.parametrize("sharding", [Sharding(tensor=4), Sharding(pipeline=4), Sharding(data=4, expert=4)])
def test_gpus_rented_one_by_one_hold_no_replica_without_a_network(sharding: Sharding) -> None:
    assert servers_of_replica(server(1), sharding) is None
    assert machines_for(server(1), sharding, 1, timed=BOARD) is None


def test_a_pipeline_stands_in_machines_with_the_network_that_it_is_timed_in() -> None:
    one = server(1, network=10e9)
    assert machines_for(one, Sharding(pipeline=4), 3, timed=one) == 12
    assert machines_for(server(1, network=5e9), Sharding(pipeline=4), 3, timed=one) is None
    # Timed inside one server: the network would be slower.
    assert machines_for(one, Sharding(pipeline=4), 3, timed=CARDS) is None


def test_a_replica_is_timed_in_one_server_before_several() -> None:
    one, four = server(1, network=100e9), server(4)
    assert server_for([one, four], Sharding(pipeline=4), usual=CARDS) == four
    assert server_for([one, four], Sharding(pipeline=8), usual=CARDS) == one
    assert server_for([server(1), four], Sharding(pipeline=8), usual=CARDS) == CARDS


def test_gpus_that_were_timed_over_fast_links_need_them() -> None:
    bridged, cards = server(4, joined=2), server(4)
    assert machines_for(cards, Sharding(tensor=2), 1, timed=bridged) is None  # timed with a bridge that is not there
    assert machines_for(cards, Sharding(tensor=4), 1, timed=bridged) == 1  # timed over PCIe
    assert machines_for(bridged, Sharding(tensor=2), 2, timed=bridged) == 1


def test_a_group_larger_than_a_machine_needs_a_known_network() -> None:
    assert machines_for(server(8, joined=8), Sharding(tensor=16), 1, timed=BOARD) is None


def test_a_group_timed_in_servers_of_eight_does_not_stand_in_smaller_machines() -> None:
    # Sixteen GPUs of machines of four cross the network three times as often as those of two boards.
    four = server(4, joined=4, network=50e9)
    assert machines_for(four, Sharding(tensor=16), 1, timed=BOARD) is None
    assert machines_for(four, Sharding(tensor=16), 1, timed=four) == 4


def test_the_cheapest_machines_are_those_that_hold_the_fleet() -> None:
    single, board = offer(1, 2.5), offer(8, 4.0, joined=8)
    assert best_offer([single, board], Sharding(tensor=8), 1, timed=BOARD) == board
    assert best_offer([single, board], Sharding(), 3, timed=BOARD) == single  # 7.5 against 32 USD/h
    assert best_offer([single], Sharding(tensor=2), 1, timed=BOARD) is None


def test_bridges_count_where_an_offer_has_them() -> None:
    plain, bridged = server(4), server(4, joined=2)
    assert server_for([plain, bridged], Sharding(tensor=2), usual=CARDS) == bridged
    assert server_for([plain], Sharding(tensor=2), usual=CARDS) == plain


def test_cards_of_a_server_are_not_spread_over_smaller_machines() -> None:
    # Two cards are timed over the PCIe of one server of eight, so that machines of one card and a network do not hold
    # them; sixteen are timed over the network between servers of eight, which two machines of eight are.
    assert machines_for(server(1, network=50e9), Sharding(tensor=2), 1, timed=CARDS) is None
    assert machines_for(server(1, network=50e9), Sharding(tensor=16), 1, timed=CARDS) is None
    assert machines_for(CARDS, Sharding(tensor=16), 1, timed=CARDS) == 2


def test_the_network_of_a_machine_is_shared_by_its_gpus() -> None:
    # The machine of `rented` carries 1 GB/s, 0.25 GB/s for each of four GPUs; hosts of a marketplace have none.
    four = offer(4, 1.0, networked=True)
    assert four.server.network_bytes_per_s == pytest.approx(0.25e9)
    assert replace(four, is_marketplace=True).server.network_bytes_per_s is None
    assert replace(four, own_network_bytes_per_s=2e9).server.network_bytes_per_s == pytest.approx(2e9)
