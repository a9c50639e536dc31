"""Show what golden outputs would change, or renew them: `python -m tests.golden [--renew] [CASE ...]`.

CASE is a name such as plan/short, or the beginning of names, such as plan/. Without --renew nothing is written.
"""

import argparse
import os
import sys
from collections.abc import Mapping

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.golden.cases import CASES
from tests.golden.kept import difference, kept_names, renew


def chosen(beginnings: list[str]) -> Mapping[str, object]:
    """Return the cases that are asked for."""
    unknown = [each for each in beginnings if not any(name.startswith(each) for name in CASES)]
    if unknown:
        raise SystemExit(f"no case begins with {', '.join(unknown)}")
    return {name: make for name, make in CASES.items() if not beginnings or name.startswith(tuple(beginnings))}


def main() -> int:
    """Make the outputs and compare them with what is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--renew", action="store_true", help="write what comes out now")
    parser.add_argument("case", nargs="*", help="only these, by name or its beginning")
    asked = parser.parse_args()
    changed = 0
    for name in chosen(asked.case):
        text = CASES[name]()
        lines = difference(name, text)
        if lines:
            changed += 1
            sys.stdout.writelines(lines)
            if asked.renew:
                renew(name, text)
    gone = [] if asked.case else sorted(kept_names() - set(CASES))
    for name in gone:
        print(f"{name}: no case has this name")
        if asked.renew:
            renew(name, None)
    print(f"{changed + len(gone)} of {len(CASES)} outputs {'renewed' if asked.renew else 'differ'}", file=sys.stderr)
    return 0 if asked.renew else int(changed + len(gone) > 0)


if __name__ == "__main__":
    sys.exit(main())
