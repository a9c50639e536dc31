"""MIG slices against NVIDIA's MIG user guide: profiles, multiprocessors, memory."""

from functools import cache

import pytest

from capplan.core.gpus.mig import mig_profiles, mig_slice
from capplan.core.gpus.spec import PeakKind
from capplan.errors import UnknownNameError, UsageError
from capplan.specs import Gpus
from capplan.specs import load_gpus as read_gpus


@cache
def load_gpus() -> Gpus:
    return read_gpus()


PROFILES = {
    "a100-sxm4-40gb": "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-sxm4-80gb": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-sxm5-80gb": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "a30": "1g.6gb 2g.12gb 4g.24gb",
}


@pytest.mark.parametrize("gpu", PROFILES)
def test_a_gpu_has_the_profiles_of_the_user_guide(gpu: str) -> None:
    assert [each.name for each in mig_profiles(load_gpus()[gpu])] == PROFILES[gpu].split()


@pytest.mark.parametrize(
    ("name", "multiprocessors", "usable_mib"),
    [
        # multiprocessors by the user guide, memory as nvidia-smi reports it of instances
        ("a100-sxm4-80gb/1g.10gb", 14, 9728),
        ("a100-sxm4-80gb/3g.40gb", 42, 40192),
        ("a100-sxm4-40gb/1g.5gb", 14, 4864),
        ("a100-sxm4-40gb/7g.40gb", 98, 40192),
        ("h100-sxm5-80gb/1g.10gb", 16, None),
        ("h100-sxm5-80gb/7g.80gb", 132, None),
        ("a30/1g.6gb", 14, None),
    ],
)
def test_a_slice_has_its_share(name: str, multiprocessors: int, usable_mib: int | None) -> None:
    gpus = load_gpus()
    found, parent = gpus.find(name), gpus[name.partition("/")[0]]
    assert found.id == name
    assert found.unit_count == multiprocessors
    assert found.peak(PeakKind.FP16) == pytest.approx(parent.peak(PeakKind.FP16) * multiprocessors / parent.unit_count)
    if usable_mib is not None:
        assert found.usable_bytes == pytest.approx(usable_mib * 2**20, rel=0.015)
    assert found.nvlink_bytes_per_s is None
    assert "shared" in found.notes[0]


def test_eight_slices_of_memory_are_the_whole_bandwidth() -> None:
    parent = load_gpus()["a100-sxm4-80gb"]
    assert 8 * mig_slice(parent, "1g.10gb").memory_bandwidth_bytes_per_s == parent.memory_bandwidth_bytes_per_s


def test_what_cannot_be_cut_is_named() -> None:
    gpus = load_gpus()
    with pytest.raises(UsageError, match="l4 cannot be cut"):
        gpus.find("l4/1g.10gb")
    with pytest.raises(UnknownNameError, match=r"Known: 1g\.10gb"):
        gpus.find("a100-sxm4-80gb/5g.50gb")
