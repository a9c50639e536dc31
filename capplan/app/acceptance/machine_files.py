"""Read what a machine is from recorded outputs of `nvidia-smi -q`, `nvidia-smi topo -m` and `rocm-smi --json`.

Forms by NVIDIA's "nvidia-smi" manual (docs.nvidia.com/deploy/nvidia-smi) and ROCm's "ROCm SMI" reference with
`--showproductname --showmeminfo vram --showmaxpower --showdriverversion --json`; rows and keys from memory.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capplan.core.measurement.acceptance import DeliveredGpu
from capplan.errors import UsageError
from capplan.files import read_file
from capplan.strict_json import JsonError, read_json
from capplan.units import BYTES, HERTZ, WATTS, parse_quantity, whole_number

LARGEST_OUTPUT_BYTES = 4 * 2**20
"""Longest recorded output of a driver's tool that is read; one of 16 GPUs has some 300 kB. [bytes]"""
_GPU = re.compile(r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s*$")
_ROW = re.compile(r"^(?P<indent>\s*)(?P<name>[^:]+?)\s*(?::\s*(?P<value>.*?))?\s*$")
_TOPOLOGY_ROW = re.compile(r"^\s*GPU(?P<number>\d+)\s+(?P<cells>.+)$")
_LINK = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d+")
_SLOWEST_FIRST = ("SYS", "NODE", "PHB", "PXB", "PIX")
_KNOWN = "nvidia-smi -q, nvidia-smi topo -m or rocm-smi --json"


def read_machine(paths: Sequence[Path]) -> tuple[DeliveredGpu, ...]:
    """Read the devices of a machine."""
    devices: list[DeliveredGpu] = []
    links: list[str] = []
    for path in paths:
        text = _text(path)
        if text.lstrip().startswith("{"):
            devices += _rocm(text, path)
        elif "NVSMI LOG" in text or re.search(r"^Attached GPUs\s*:", text, re.MULTILINE):
            devices += _nvidia(text, path)
        elif _TOPOLOGY_ROW.search(text) or re.search(r"^\s*GPU0\s+(X|GPU)", text, re.MULTILINE):
            links = list(_topology(text))
        else:
            raise UsageError(f"{path}: is none of the outputs that are read: {_KNOWN}.")
    if not devices:
        raise UsageError(
            f"{', '.join(map(str, paths))}: names no GPU; add the output of {_KNOWN.split(',', maxsplit=1)[0]}."
        )
    if len(links) == len(devices):
        return tuple(replace(device, link=link) for device, link in zip(devices, links, strict=True))
    return tuple(devices)


def _text(path: Path) -> str:
    try:
        content = read_file(path, at_most=LARGEST_OUTPUT_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    if len(content) > LARGEST_OUTPUT_BYTES:
        raise UsageError(f"{path} is longer than {LARGEST_OUTPUT_BYTES:,} bytes, the most that are read.")
    return content.decode("utf-8-sig", errors="replace")


def _nvidia(text: str, path: Path) -> Iterator[DeliveredGpu]:
    """Yield the devices of `nvidia-smi -q`, whose rows are indented below the heading that they belong to."""
    head, *parts = re.split(_GPU.pattern, text, flags=re.MULTILINE)
    driver = _rows(head).get("Driver Version")
    for part in parts:
        rows = _rows(part)
        ecc = rows.get("ECC Mode/Current")
        yield DeliveredGpu(
            name=rows.get("Product Name", ""),
            memory_bytes=_quantity(rows.get("FB Memory Usage/Total"), BYTES),
            driver=driver,
            power_limit_w=_quantity(
                rows.get("GPU Power Readings/Current Power Limit") or rows.get("Power Readings/Power Limit")
                or rows.get("GPU Power Readings/Power Limit") or rows.get("Power Readings/Current Power Limit"),
                WATTS,
            ),
            max_clock_hz=_quantity(rows.get("Max Clocks/SM"), HERTZ),
            ecc_on=None if ecc not in ("Enabled", "Disabled") else ecc == "Enabled",
            uncorrected_errors=_errors(rows),
            source=path.name,
        )  # fmt: skip


def _rows(text: str) -> Mapping[str, str]:
    """Return values by the path of their headings; of equal paths the first counts."""
    found: dict[str, str] = {}
    headings: list[tuple[int, str]] = []
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is None or not row["name"].strip():
            continue
        indent = len(row["indent"])
        while headings and headings[-1][0] >= indent:
            headings.pop()
        names = [name for _, name in headings] + [row["name"].strip()]
        if row["value"] is None:
            headings.append((indent, row["name"].strip()))
        else:
            found.setdefault("/".join(names), row["value"])
    return found


def _errors(rows: Mapping[str, str]) -> int | None:
    """Return the uncorrected errors of memory since the last start; None where they are not counted."""
    counted = [
        errors
        for name, value in rows.items()
        if name.startswith("ECC Errors/Volatile/") and "Uncorrectable" in name
        if (errors := whole_number(value)) is not None
    ]
    return sum(counted) if counted else None


def _quantity(text: str | None, units: Mapping[str, float]) -> float | None:
    if text is None or text in ("N/A", "[N/A]", "Requested functionality has been deprecated"):
        return None
    try:
        return parse_quantity(text, units, what="")
    except UsageError:
        return None


def _topology(text: str) -> Iterator[str]:
    """Yield for each device its slowest link to another one."""
    # A line without the codes that underline the heading on a terminal.
    matches = [
        match for line in text.splitlines() if (match := _TOPOLOGY_ROW.match(re.sub(r"\x1b\[[0-9;]*m", "", line)))
    ]
    rows = [row for row in (match["cells"].split() for match in matches) if _LINK.fullmatch(row[0])]  # no heading
    for row in rows:
        cells = row[: len(rows)]
        others = [cell for cell in cells if cell != "X"]
        slow = next((kind for kind in _SLOWEST_FIRST if kind in others), None)
        yield slow or min(others, key=lambda cell: int(cell.removeprefix("NV")), default="")


def _rocm(text: str, path: Path) -> Iterator[DeliveredGpu]:
    try:
        tree = read_json(text)
    except JsonError as error:
        raise UsageError(f"{path} {error}.") from error
    cards = {name: card for name, card in tree.items() if re.fullmatch(r"card\d+", name) and isinstance(card, dict)}
    if not cards:
        raise UsageError(f"{path}: is none of the outputs that are read: {_KNOWN}.")
    system = tree.get("system", {})
    driver = system.get("Driver version") if isinstance(system, dict) else None
    for name in sorted(cards, key=lambda card: int(card.removeprefix("card"))):
        card = {str(key).lower(): str(value) for key, value in cards[name].items()}
        yield DeliveredGpu(
            name=card.get("card series") or card.get("card model") or "",
            memory_bytes=_plain_number(card.get("vram total memory (b)")),
            driver=None if driver is None else str(driver),
            power_limit_w=_plain_number(card.get("max graphics package power (w)")),
            source=path.name,
        )


def _plain_number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
