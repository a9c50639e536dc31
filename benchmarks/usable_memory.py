"""Print what drivers leave of printed memory, by its kind: medians that other GPUs of the kind are expected to have.

    python benchmarks/usable_memory.py [--write]

Readings are those of `gpu_specs/` (`usable`, what torch reports as total_memory). `--write` makes
`capplan/calibrations/usable.yaml` anew.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from statistics import median

from capplan.specs import load_gpus
from capplan.specs.gpus.load import SCHEMA_VERSION, USABLE_FILE, memory_kind
from capplan.specs.strict_yaml import dump_yaml

COMMAND = "python benchmarks/usable_memory.py --write"


def shares_by_kind() -> dict[str, tuple[float, int]]:
    """Return the median share and the number of GPUs behind it, by kind of memory."""
    found: dict[str, list[float]] = defaultdict(list)
    for gpu in load_gpus().values():
        if gpu.is_cpu or gpu.usable_bytes is None:
            continue
        kind = memory_kind(segment=gpu.segment, vendor=gpu.vendor, memory_type=gpu.memory_type or "", ecc=gpu.ecc)
        found[kind].append(gpu.usable_bytes / gpu.memory_bytes)
    return {kind: (median(shares), len(shares)) for kind, shares in found.items()}


def table_text(shares: Mapping[str, tuple[float, int]], *, made: str) -> str:
    """Return the table as YAML, from the median share and the number of GPUs behind it, by kind of memory."""
    readings = sum(count for _, count in shares.values())
    document = {
        "schema_version": SCHEMA_VERSION,
        "origin": {
            "made": made,
            "command": COMMAND,
            "data": f"gpu_specs: `usable` of {readings} GPUs, which torch reports, over the printed memory",
        },
        "shares": {kind: {"share": round(share, 4), "gpus": count} for kind, (share, count) in sorted(shares.items())},
    }
    return dump_yaml(document)


def main() -> None:
    """Print the medians, and write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    shares = shares_by_kind()
    for kind, (share, count) in sorted(shares.items()):
        print(f"{kind}: {share:.4f} of {count} GPUs")
    if words.write:
        text = table_text(shares, made=words.made.isoformat())
        (Path(__file__).parents[1] / "capplan" / "calibrations" / USABLE_FILE).write_text(text)


if __name__ == "__main__":
    main()
