"""Compare the branch coverage that the last test run left in .coverage with the floor of each package.

A floor lies a few points below what the tests reach: it may rise, and falls only with a reason. Lines and branches
count alike. What runs in processes of its own is not seen.
"""

import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def counted() -> dict[str, tuple[int, int]]:
    """Return the covered and all lines and branches of each package of the first level."""
    words = [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    covered: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for name, file in json.loads(done.stdout)["files"].items():
        parts = Path(name).parts
        package = parts[1] if len(parts) > 2 else "capplan"
        summary = file["summary"]
        covered[package] += summary["covered_lines"] + summary["covered_branches"]
        total[package] += summary["num_statements"] + summary["num_branches"]
    return {package: (covered[package], total[package]) for package in total}


def main() -> int:
    """Print a line per package; 1 if one lies below its floor."""
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage-floors"]
    below = 0
    for package, (covered, total) in sorted(counted().items()):
        percent = 100 * covered / total
        floor = floors.get(package, 0)
        print(f"{package:12s} {percent:6.2f} % of {total:6d} lines and branches, floor {floor} %")
        if percent < floor:
            print(f"  {package} is {floor - percent:.2f} points below its floor")
            below += 1
    return int(below > 0)


if __name__ == "__main__":
    sys.exit(main())
