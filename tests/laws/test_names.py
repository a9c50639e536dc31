"""How a GPU's name is spelled does not matter: case, dashes, blanks and the maker, for every GPU of the database."""

import pytest

from capplan.specs import load_gpus
from tests.seen import at_least

GPUS = load_gpus()


@pytest.mark.parametrize(
    "spelled",
    [str.upper, str.title, lambda name: name.replace("-", " "), lambda name: name.replace("-", "_"),
     lambda name: name.replace("-", ""), lambda name: f" {name} "],
    ids=["upper case", "title case", "blanks", "underscores", "joined", "padded"],
)  # fmt: skip
def test_every_spelling_of_an_id_finds_its_gpu(spelled) -> None:
    wrong = {gpu_id: found for gpu_id in at_least(100, GPUS) if (found := GPUS.find(spelled(gpu_id)).id) != gpu_id}
    assert not wrong


def test_a_name_with_its_maker_finds_its_gpu() -> None:
    for gpu_id, gpu in at_least(100, GPUS.items()):
        assert GPUS.find(gpu.name).id == gpu_id
        has_maker = gpu.name.casefold().startswith(gpu.vendor.casefold())
        assert GPUS.find(gpu.name if has_maker else f"{gpu.vendor} {gpu.name}").id == gpu_id
