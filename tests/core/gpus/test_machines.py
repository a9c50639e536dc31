"""How many GPUs of a machine fast links join, by the vendors' documents."""

import pytest

from capplan.core.gpus.machines import joined_gpus, joined_in_machine
from capplan.specs import load_gpus


@pytest.mark.parametrize(
    ("gpu", "joined"),
    [
        ("h100-sxm5-80gb", 8),  # HGX H100: eight GPUs over NVSwitch
        ("mi300x", 8),  # eight OAM modules, each linked to the seven others
        ("gb200-186gb", 72),  # GB200 NVL72
        ("gh200-96gb", 1),  # NVLink-C2C leads to the Grace processor
        ("a30", 2),  # A30 data sheet: NVLink bridge for two
        ("rtx-3090", 2),
        ("h100-pcie-80gb", 2),
        ("l40s", 1),  # no NVLink
    ],
)
def test_fast_links_join_boards_and_bridged_pairs(gpu: str, joined: int) -> None:
    assert joined_gpus(load_gpus()[gpu]) == joined


def test_rented_cards_have_no_bridge_unless_their_machine_says_so() -> None:
    assert joined_in_machine(load_gpus()["a30"], 4, None) == 1
    assert joined_in_machine(load_gpus()["h100-sxm5-80gb"], 4, None) == 4
