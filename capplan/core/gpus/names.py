"""GPU names as people type them, and the spec of a device at hand by PCI id or its driver's exact name."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

from capplan.core.gpus.spec import GpuSpec
from capplan.errors import LONGEST_NAME, UsageError
from capplan.units import format_bytes

_MAKERS = frozenset({"nvidia", "amd", "intel", "apple", "google", "amazon", "aws"})
_LINES = frozenset({"geforce", "tesla", "radeon", "instinct", "arc", "rtx", "gtx", "rx", "jetson"})
_VARIANT = re.compile(
    r"pcie|sxm\d?|nvl|oam|\d+gb|blackwell|server|workstation|ws|max|q|edition|generation|grace|hopper"
)
"""Words that distinguish variants of one GPU: form factor, memory size, edition."""
_FAMILY = re.compile(r"(?!sxm)[a-z]{0,3}\d{1,4}[a-z]{0,2}")
"""A word that can name a family, such as a100, mi300x or 4090."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGpus:
    """The GPUs that a name stands for; `note` says so where they are several."""

    gpus: tuple[GpuSpec, ...]
    note: str | None = None


class GpuNames:
    """All names of some GPUs, to be looked up as people type them."""

    def __init__(self, gpus: Iterable[GpuSpec]) -> None:
        self._gpus = {gpu.id: gpu for gpu in gpus}
        self._exact: dict[str, str] = {}
        self._squeezed: dict[str, set[str]] = {}
        for gpu in self._gpus.values():
            for name in (gpu.id, gpu.name, *gpu.aliases):
                self._exact[name.strip().casefold()] = gpu.id
                for form in _squeezed_forms(name):
                    self._squeezed.setdefault(form, set()).add(gpu.id)

    def one(self, name: str) -> GpuSpec | None:
        """Return the one GPU that a name stands for; None where it stands for none, or for several."""
        gpu_id = self._exact.get(name.strip().casefold())
        if gpu_id is None:
            found = self._squeezed.get(_squeeze(_words(name)), set())
            gpu_id = next(iter(found)) if len(found) == 1 else None
        return None if gpu_id is None else self._gpus[gpu_id]

    def find(self, name: str) -> NamedGpus | None:
        """Return the GPU of a name, or all variants of the family that it names; None where it names neither."""
        if (exact := self._exact.get(name.strip().casefold())) is not None:
            return NamedGpus(gpus=(self._gpus[exact],))
        family = tuple(gpu for gpu in self._gpus.values() if _is_variant(gpu.id, name))
        single = self.one(name)
        if single is not None and (len(family) < 2 or single not in family):
            return NamedGpus(gpus=(single,))
        if not family:
            # The GPU of a name that ends in its size of memory, though its id does not: RTX4090 24GB.
            *others, last = _words(name) or [""]
            size = re.fullmatch(r"(\d+)gb", last)
            found = self.find(" ".join(others)) if size and others else None
            held = size and found and all(gpu.memory_bytes == int(size[1]) * 2**30 for gpu in found.gpus)
            return found if held else None
        note = f"{name} stands for {', '.join(gpu.id for gpu in family)}" if len(family) > 1 else None
        return NamedGpus(gpus=family, note=note)

    def sold_as(self, name: str, *, beside: str = "", memory_bytes: float | None = None) -> tuple[GpuSpec, ...]:
        """Return the GPUs that a seller's name may stand for: one where nothing is in doubt, none where none is known.

        Args:
            name: As price lists write it, in any case: L4, RTX4090, NVIDIA L40S, H100_SXM, A100 (80 GB PCIe).
            beside: What else a row says of the form, such as the name of its machine.
            memory_bytes: One GPU's memory where the row states it. A card of another size is another card. [bytes]
        """
        wanted = _spelled_out(name)
        stated = _STATED_MEMORY.search(wanted.casefold())
        held = memory_bytes or (float(stated[1]) * 2**30 if stated else None)
        bare = " ".join(word for word in _words(wanted) if not _FORM.fullmatch(word))
        found = self.find(wanted) or self.find(bare)
        if found is None:
            return ()
        family = self.find(bare) or found
        whole = {gpu.id for gpu in family.gpus}
        gpus = family.gpus if whole.issuperset(gpu.id for gpu in found.gpus) else found.gpus
        words = (*_words(wanted), *_words(beside))
        forms = {word[:3] for word in words if _FORM.fullmatch(word) and not word[0].isdigit()}
        of_form = tuple(gpu for gpu in gpus if any(part[:3] in forms for part in gpu.id.split("-")))
        gpus = of_form or gpus
        if held is not None:
            gpus = tuple(gpu for gpu in gpus if _LEAST_SHOWN <= held / gpu.memory_bytes <= _MOST_SHOWN)
            if not gpus and (sized := self.one(f"{bare} {held / 2**30:.0f}GB")) is not None:
                return (sized,)  # a card whose memory was changed: RTX 4090 48GB
        plain = self.one(wanted)
        return (plain,) if plain is not None and plain in gpus and not of_form else gpus

    def nearest(self, name: str) -> list[str]:
        """Return the three ids that are most similar to a name, those with the same beginning first.

        A name that is much longer than any GPU's has none: the time of the comparison grows with its square.
        """
        if len(name) > LONGEST_NAME:
            return []
        wanted = _squeeze(_words(name))
        family = {word for word in _words(name) if _FAMILY.fullmatch(word) and not _VARIANT.fullmatch(word)}
        scored = []
        for gpu in self._gpus.values():
            forms = [form for text in (gpu.id, gpu.name, *gpu.aliases) for form in _squeezed_forms(text)]
            of_family = bool(family) and family <= set(gpu.id.split("-"))
            scored.append((max(_likeness(wanted, form) for form in forms) + of_family, gpu.id))
        close = sorted((score for score in scored if score[0] >= _ALIKE), key=lambda score: (-score[0], score[1]))
        return [gpu_id for _, gpu_id in close[:_MOST_NEAR]]


_ALIKE, _MOST_NEAR = 0.5, 3
_LEAST_SHOWN, _MOST_SHOWN = 0.88, 1.06
"""Share of its printed memory that price lists state of a GPU: 262 of a B300's 288, 22 of an A10G's 24; 80 of 94 is
another card."""
_FORM = re.compile(r"pcie|sxm\d?|nvl|oam|\d+gb")
_STATED_MEMORY = re.compile(r"(?<![\w.])(\d{1,3}) ?g(?:i?b)?\b")
_SELLERS_SPELLINGS = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"_", " "),
        (r"^\s*\d+ ?x ", ""),
        (r"\brtx[ -]?pro[ -]?", "RTX PRO "),
        (r"\b(rtx pro \d{4}) ?s\b", r"\1 Blackwell Server"),
        (r"\b(rtx pro \d{4}) ?ws\b", r"\1 Blackwell WS"),
        (r"\b(rtx ?\d{4}) ?s ti\b", r"\1 Ti Super"),
        (r"\b(rtx ?\d{4}) ?s\b", r"\1 Super"),
        (r"\bq rtx\b", "Quadro RTX"),
    )
)
"""What Vast.ai and others shorten: RTX 4070S Ti, RTX PRO 6000 S, Q RTX 8000."""


def _spelled_out(name: str) -> str:
    for pattern, words in _SELLERS_SPELLINGS:
        name = pattern.sub(words, name)
    return name.strip()


def _likeness(wanted: str, form: str) -> float:
    """Return how alike two names are: 0 to 1, and up to 1 more for the share of a common beginning."""
    common = next(
        (i for i, (a, b) in enumerate(zip(wanted, form, strict=False)) if a != b), min(len(wanted), len(form))
    )
    return SequenceMatcher(None, wanted, form).ratio() + common / max(1, len(wanted))


def split_names(names: Sequence[str]) -> tuple[str, ...]:
    """Split names that hold commas, such as "t4,l4", into single ones."""
    split = [part.strip() for name in names for part in name.split(",")]
    if not all(split):
        raise UsageError(f"⟨gpu⟩ {','.join(names)!r} holds an empty name; write it like t4,l4.")
    return tuple(split)


def family_of(gpu_id: str) -> str:
    """Return the id without the words that distinguish variants: a100-sxm4-80gb and a100-pcie-40gb are both a100."""
    words = gpu_id.split("-")
    kept = [word for word in words[1:] if not _VARIANT.fullmatch(word)]
    return "-".join([words[0], *kept])


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case, without the maker; "80 GB" and "80g" become 80gb."""
    text = re.sub(r"(?<!\d)(\d{1,6})\s*g(?:i?b)?\b", r"\1gb", name.casefold())
    return [word for word in re.split(r"[\s_/()-]+", text) if word and word not in _MAKERS]


def _squeeze(words: Sequence[str]) -> str:
    """Join words, without the maker in front: applem1 is m1."""
    joined = "".join(words)
    maker = next((letter for letter in _MAKERS if joined.startswith(letter) and joined != letter), "")
    return joined.removeprefix(maker)


def _squeezed_forms(name: str) -> set[str]:
    """Return the forms of a name that stand for it: whole, without its product line, without "gpu" and the like."""
    words = [word for word in _words(name) if word not in ("gpu", "graphics")]
    forms = {_squeeze(words)}
    while len(words) > 1 and words[0] in _LINES:
        words = words[1:]
        forms.add(_squeeze(words))
    return forms


def _is_variant(gpu_id: str, name: str) -> bool:
    """Return True if a name is a family's, narrowed perhaps by form factor or memory size, and the GPU is of it."""
    wanted, own = _words(name.rstrip("*")), gpu_id.split("-")
    if not any(_FAMILY.fullmatch(word) and not _VARIANT.fullmatch(word) for word in wanted):
        return False
    matched = [word for word in own if any(word == other or _is_form(other, word) for other in wanted)]
    covered = all(
        any(word == other or _is_form(other, word) for word in own) for other in wanted if other not in _LINES
    )
    rest = [word for word in own if word not in matched and word not in _LINES]
    return covered and all(_VARIANT.fullmatch(word) for word in rest)


def _is_form(wanted: str, own: str) -> bool:
    return wanted == "sxm" and own.startswith("sxm")


_TOLERANCE = 0.01
_SHOWN_FRACTIONS = (0.9, 1.005)
_SIZE = re.compile(r" [0-9]+GB$")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledGpu:
    """A driver's facts of one device; None if it was not queried or does not report them.

    `total_bytes` is what torch reports, `driver_total_bytes` what nvidia-smi does; `max_clock_hz` is the highest
    clock of the units.
    """

    index: int
    name: str
    told_by: str
    pci_id: str | None = None
    total_bytes: int | None = None
    driver_total_bytes: int | None = None
    unit_count: int | None = None
    compute_capability: tuple[int, int] | None = None
    power_limit_w: float | None = None
    max_clock_hz: float | None = None


Match: TypeAlias = tuple[InstalledGpu, GpuSpec | None]
"""A device with its spec; None where the database has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDifference:
    """A figure that a device has otherwise than its spec says."""

    key: str
    found: str
    specified: str


def match_gpu(device: InstalledGpu, specs: Iterable[GpuSpec]) -> GpuSpec | None:
    """Find a device's spec: by PCI id where only one has it, else by exact name, else not at all.

    Where drivers give cards of two memory sizes one name, the spec's name ends in its size ("... 4060 Ti 8GB");
    then the memory at hand decides.
    """
    known = list(specs)
    by_pci = [spec for spec in known if device.pci_id and device.pci_id in spec.pci_ids]
    if len(by_pci) == 1:
        return by_pci[0]
    folded = device.name.casefold()
    named = [spec for spec in known if folded in {name.casefold() for name in (spec.id, spec.name, *spec.aliases)}]
    sizes = [spec for spec in known if _SIZE.sub("", spec.name).casefold() == folded and _has_memory_of(device, spec)]
    return next(iter(named or sizes[: len(sizes) == 1]), None)


def _has_memory_of(device: InstalledGpu, spec: GpuSpec) -> bool:
    size = device.driver_total_bytes or device.total_bytes
    low, high = _SHOWN_FRACTIONS
    return size is not None and low <= size / spec.memory_bytes <= high


def differences(device: InstalledGpu, spec: GpuSpec) -> tuple[SpecDifference, ...]:
    """Return how a device differs from its spec; memory and clocks count from 1 % on."""
    found: list[SpecDifference] = []
    sizes = (
        ("usable", device.total_bytes, spec.usable_bytes),
        ("driver_total", device.driver_total_bytes, spec.driver_total_bytes),
    )
    for key, size, specified in sizes:
        if size is not None and specified is not None and _differs(size, specified):
            found.append(SpecDifference(key=key, found=format_bytes(size), specified=format_bytes(specified)))
    shown = device.driver_total_bytes or device.total_bytes
    if shown is not None and not _has_memory_of(device, spec):
        found.append(SpecDifference(key="memory", found=format_bytes(shown), specified=format_bytes(spec.memory_bytes)))
    if device.unit_count is not None and spec.unit_count is not None and device.unit_count != spec.unit_count:
        found.append(SpecDifference(key="units", found=str(device.unit_count), specified=str(spec.unit_count)))
    if device.compute_capability and spec.compute_capability and device.compute_capability != spec.compute_capability:
        capabilities = [".".join(map(str, version)) for version in (device.compute_capability, spec.compute_capability)]
        found.append(SpecDifference(key="compute_capability", found=capabilities[0], specified=capabilities[1]))
    if device.power_limit_w is not None and spec.tdp_w is not None and _differs(device.power_limit_w, spec.tdp_w):
        found.append(SpecDifference(key="tdp", found=f"{device.power_limit_w:g} W", specified=f"{spec.tdp_w:g} W"))
    if (
        device.max_clock_hz is not None
        and spec.boost_clock_hz is not None
        and device.max_clock_hz < 0.99 * spec.boost_clock_hz
    ):
        clocks = [f"{clock / 1e6:.0f} MHz" for clock in (device.max_clock_hz, spec.boost_clock_hz)]
        found.append(SpecDifference(key="boost_clock", found=clocks[0], specified=clocks[1]))
    return tuple(found)


def _differs(value: float, specified: float) -> bool:
    return abs(value / specified - 1) > _TOLERANCE
