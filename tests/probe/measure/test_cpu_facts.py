"""CPUs by what Linux says of them: x86 by its instructions, Arm by its part, others as not known."""

import pytest

from capplan.probe.measure.devices import cpu_name
from capplan.probe.measure.facts import cpu_architecture
from capplan.specs import load_gpus

GRAVITON3 = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop \
sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
CPU revision\t: 1

processor\t: 1
BogoMIPS\t: 2100.00
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""
GRAVITON2 = GRAVITON3.replace("0xd40", "0xd0c").replace("2100.00", "243.75")
GRACE = GRAVITON3.replace("0xd40", "0xd4f").replace("2100.00", "2000.00").replace("svebf16", "sve2 svebf16")
THUNDERX2 = GRAVITON3.replace("0x41", "0x43").replace("0xd40", "0x0af")
RASPBERRY_PI = GRACE.replace("0xd4f", "0xd08") + "\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"


def x86(flags: str, *, vendor: str = "AuthenticAMD") -> str:
    """Return what Linux says of an x86 CPU with these flags."""
    return (
        f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: A CPU\nflags\t\t: fpu sse4_2 {flags}\n\nprocessor\t: 1\n"
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GRAVITON2, "Arm Neoverse-N1"),  # AWS: Graviton2 has Neoverse N1, Graviton3 V1; NVIDIA: Grace has V2
        (GRAVITON3, "Arm Neoverse-V1"),
        (GRACE, "Arm Neoverse-V2"),
        (THUNDERX2, "Arm core of implementer 0x43, part 0x0af"),
        (RASPBERRY_PI, "Raspberry Pi 4 Model B Rev 1.4"),
        (x86("avx2"), "A CPU"),
    ],
)
def test_a_cpu_has_the_name_that_linux_states_or_that_of_its_part(text: str, name: str) -> None:
    assert cpu_name(text) == name


@pytest.mark.parametrize("text", [GRAVITON2, GRAVITON3, GRACE, THUNDERX2, RASPBERRY_PI])
def test_no_arm_cpu_is_taken_for_x86(text: str) -> None:
    found = load_gpus().architectures[cpu_architecture(text, machine="aarch64")]
    assert found.id == "cpu-other"
    assert not found.operations_per_clock


@pytest.mark.parametrize(
    ("text", "architecture"),
    [
        (x86("avx avx2 fma"), "x86-avx2"),
        (x86("avx2 avx512f"), "x86-avx512"),
        (x86("avx2 avx512f avx512_bf16"), "x86-avx512-bf16"),
        (x86("avx2 avx512f avx512_bf16", vendor="GenuineIntel"), "x86-avx512"),
        (x86("avx2 avx512f avx512_bf16 amx_bf16", vendor="GenuineIntel"), "x86-amx"),
        (x86("avx"), "cpu-other"),  # Sandy Bridge: no fused multiply-add
        ("", "cpu-other"),  # macOS and Windows have no /proc/cpuinfo
    ],
)
def test_x86_is_known_by_its_widest_instructions(text: str, architecture: str) -> None:
    assert cpu_architecture(text, machine="x86_64") == architecture
    assert cpu_architecture(text, machine="AMD64") == architecture
