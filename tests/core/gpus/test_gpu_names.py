"""GPU names as people type them, on a small database of cards that are easily confused."""

import pytest

from capplan.core.gpus.names import GpuNames, family_of, split_names
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UsageError

CARDS = {
    "a100-pcie-40gb": "NVIDIA A100 PCIe 40GB", "a100-sxm4-40gb": "NVIDIA A100 SXM4 40GB",
    "a100-sxm4-80gb": "NVIDIA A100 SXM4 80GB", "a10": "NVIDIA A10", "a40": "NVIDIA A40",
    "rtx-a4000": "NVIDIA RTX A4000",
    "mi100": "AMD Instinct MI100", "h200-sxm-141gb": "NVIDIA H200", "h200-nvl-141gb": "NVIDIA H200 NVL",
    "gh200-96gb": "NVIDIA GH200 96GB", "h100-sxm5-80gb": "NVIDIA H100 SXM5 80GB", "h100-pcie-80gb": "NVIDIA H100 PCIe",
    "rtx-4090": "NVIDIA GeForce RTX 4090", "rtx-4090-laptop": "NVIDIA GeForce RTX 4090 Laptop GPU",
    "rtx-3080-10gb": "NVIDIA GeForce RTX 3080", "rtx-3080-12gb": "NVIDIA GeForce RTX 3080 12GB",
    "rtx-3080-ti": "NVIDIA GeForce RTX 3080 Ti", "v100-sxm2-16gb": "Tesla V100-SXM2-16GB",
    "v100s-pcie-32gb": "Tesla V100S-PCIE-32GB", "t4": "Tesla T4", "l4": "NVIDIA L4", "l40": "NVIDIA L40",
    "quadro-rtx-6000": "Quadro RTX 6000", "rtx-6000-ada": "NVIDIA RTX 6000 Ada Generation",
}  # fmt: skip
NAMES = GpuNames(
    GpuSpec(id=gpu_id, name=name, vendor="NVIDIA", architecture="x", memory_bytes=1, memory_bandwidth_bytes_per_s=1.0)
    for gpu_id, name in CARDS.items()
)


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        ("RTX 4090", ["rtx-4090"]),
        ("rtx4090", ["rtx-4090"]),
        ("GeForce RTX-4090", ["rtx-4090"]),
        ("Tesla T4", ["t4"]),
        ("nvidia a40", ["a40"]),
        ("A4000", ["rtx-a4000"]),
        ("a100", ["a100-pcie-40gb", "a100-sxm4-40gb", "a100-sxm4-80gb"]),
        ("a100*", ["a100-pcie-40gb", "a100-sxm4-40gb", "a100-sxm4-80gb"]),
        ("A100 80GB", ["a100-sxm4-80gb"]),
        ("A100 SXM", ["a100-sxm4-40gb", "a100-sxm4-80gb"]),
        ("h200", ["h200-sxm-141gb", "h200-nvl-141gb"]),
        ("NVIDIA H200", ["h200-sxm-141gb"]),  # exactly what a driver reports
        ("RTX 3080 10 GB", ["rtx-3080-10gb"]),
        ("rtx 3080", ["rtx-3080-10gb", "rtx-3080-12gb"]),  # not the Ti, which is another GPU
        ("v100", ["v100-sxm2-16gb"]),  # not the V100S
        ("l4", ["l4"]),
        ("a10", ["a10"]),
    ],
)
def test_names_as_people_type_them(typed: str, ids: list[str]) -> None:
    found = NAMES.find(typed)
    assert found is not None
    assert [gpu.id for gpu in found.gpus] == ids
    assert (found.note is None) is (len(ids) == 1)


def test_the_size_of_memory_may_stand_behind_a_name_without_it() -> None:
    card = GpuSpec(
        id="rtx-4090", name="NVIDIA GeForce RTX 4090", vendor="NVIDIA", architecture="x", memory_bytes=24 * 2**30,
        memory_bandwidth_bytes_per_s=1.0,
    )  # fmt: skip
    found = GpuNames([card]).find("RTX4090 24GB")
    assert found is not None
    assert found.gpus == (card,)
    assert GpuNames([card]).find("RTX4090 16GB") is None


@pytest.mark.parametrize("typed", ["a4", "a1", "00", "80gb", "rtx", "sxm", "h10", "rtx 6000"])
def test_parts_of_names_and_ambiguous_ones_stand_for_nothing(typed: str) -> None:
    assert NAMES.find(typed) is None


@pytest.mark.parametrize(
    ("typed", "first"), [("h100x", "h100"), ("rtx 4091", "rtx-4090"), ("rtx 6000", "rtx-6000-ada")]
)
def test_suggestions_put_the_right_family_first(typed: str, first: str) -> None:
    assert NAMES.nearest(typed)[0].startswith(first)


@pytest.mark.parametrize("gpu_id", CARDS)
def test_every_id_and_name_finds_its_own_gpu(gpu_id: str) -> None:
    for name in (gpu_id, CARDS[gpu_id], CARDS[gpu_id].upper()):
        found = NAMES.find(name)
        assert found is not None
        assert [gpu.id for gpu in found.gpus] == [gpu_id]


def test_lists_are_split_at_commas() -> None:
    assert split_names(["t4,l4", "RTX 4090"]) == ("t4", "l4", "RTX 4090")
    with pytest.raises(UsageError, match="empty"):
        split_names(["t4,,l4"])


def test_families() -> None:
    assert {family_of(each) for each in CARDS if "100-" in each} == {"a100", "h100", "v100"}
    assert family_of("rtx-pro-6000-blackwell-max-q") == family_of("rtx-pro-6000-blackwell-server") == "rtx-pro-6000"
    assert family_of("rtx-4090") == "rtx-4090"
