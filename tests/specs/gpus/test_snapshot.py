"""The whole resolved table, so that every change of a figure reads as a diff.

After a change that is meant:  python tests/specs/gpus/test_snapshot.py
"""

from difflib import unified_diff
from pathlib import Path

import capplan
from capplan.core.gpus.attributes import ATTRIBUTES, Absence
from capplan.specs import Gpus, load_gpus
from tests.seen import at_least

SNAPSHOT = Path(__file__).parents[2] / "snapshots" / "gpus.txt"
KEYS = {
    "bus": "memory_bus",
    "clock": "boost_clock",
    "data-rate": "memory_data_rate",
    "devices": "devices_per_board",
}
LEFT_OUT = ("id", "ridge", "origin")


def spell(gpus: Gpus) -> str:
    """One line per GPU and figure in base units, with the kinds of its sources; what nobody tells is left out."""
    lines = []
    for spec in gpus.values():
        kinds = {
            key: "+".join(dict.fromkeys(source.kind for source in figure.sources))
            for key, figure in spec.figures.items()
        }
        for attribute in ATTRIBUTES.values():
            value = attribute.value(spec)
            if attribute.name in LEFT_OUT or value is Absence.UNKNOWN:
                continue
            kind = kinds.get(
                KEYS.get(attribute.name, attribute.name.replace("-", "_")), kinds.get(f"peak.{attribute.name}")
            )
            number = f"{value:.12g}" if isinstance(value, int | float) else str(value)
            lines.append(f"{spec.id} {attribute.base_name} {number}{f' ({kind})' if kind else ''}")
        lines += [f"{spec.id} alias {alias}" for alias in spec.aliases]
        lines += [f"{spec.id} pci_id {pci_id}" for pci_id in spec.pci_ids]
    return "\n".join(lines) + "\n"


def test_the_resolved_table_is_the_one_last_reviewed(gpus: Gpus) -> None:
    was, is_now = at_least(4000, SNAPSHOT.read_text().splitlines()), spell(gpus).splitlines()
    assert not list(unified_diff(was, is_now, lineterm="", n=0))


if __name__ == "__main__":
    root = Path(__file__).parents[3]
    if Path(capplan.__file__).parents[1] != root:
        raise SystemExit(f"capplan is imported from {capplan.__file__}, not from {root}: run it in that environment")
    SNAPSHOT.write_text(spell(load_gpus()))
    print(f"wrote {SNAPSHOT}")
