"""Write what capplan is installed with, its releases and licences, as CycloneDX 1.6: a release's bill of materials.

    python .ci/parts.py dist/capplan.cdx.json

The parts are those of the environment that runs this, which `constraints.txt` fixes: what capplan needs with all extras
that a user may install, and what these need. A part whose licence its author does not state is listed without one, and
named on standard error.
"""

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

EXTRAS = frozenset({"zoo", "report", "measure", "sweep", "serve", "mcp", "hub", "onnx"})
"""Extras that users install; the others are for contributors."""


def licence(part: Distribution) -> str | None:
    """Return the licence that a distribution states: its expression, else its classifiers, else a short field."""
    told = part.metadata
    if expression := told.get("License-Expression"):
        return str(expression)
    stated = {one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or [] if one.startswith("License ::")}
    if classifiers := sorted(stated - {"OSI Approved"}):
        return " AND ".join(classifiers)
    field = str(told.get("License") or "").strip()
    return field.splitlines()[0] if field and field != "UNKNOWN" and len(field.splitlines()[0]) < 80 else None


def needed(name: str, extras: frozenset[str]) -> dict[str, Distribution]:
    """Return the installed distributions that one needs, with those that these need, by their normal name."""
    found: dict[str, Distribution] = {}
    waiting = [(name, extras)]
    while waiting:
        asked, wanted = waiting.pop()
        try:
            part = distribution(asked)
        except PackageNotFoundError:
            continue  # of another system or Python, which a marker names
        for requirement in part.requires or []:
            words, _, marker = requirement.partition(";")
            extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", marker)
            if extra and extra[1] not in wanted:
                continue
            match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([\w,\s.-]+)\])?", words)
            assert match is not None, requirement
            key = re.sub(r"[-_.]+", "-", match[1]).lower()
            if key not in found and key != name:
                waiting.append((key, frozenset(one.strip() for one in (match[2] or "").split(",") if one.strip())))
        if asked != name:
            found[re.sub(r"[-_.]+", "-", part.metadata["Name"]).lower()] = part
    return dict(sorted(found.items()))


def bill(version: str, parts: dict[str, Distribution]) -> dict[str, object]:
    """Return the document: each part with its release, licence and package URL."""
    components = []
    for name, part in parts.items():
        stated = licence(part)
        component: dict[str, object] = {
            "type": "library", "bom-ref": f"pkg:pypi/{name}@{part.version}", "name": name, "version": part.version,
            "purl": f"pkg:pypi/{name}@{part.version}",
        }  # fmt: skip
        if stated is not None:
            component["licenses"] = [{"license": {"name": stated}}]
        components.append(component)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": f"pkg:pypi/capplan@{version}", "name": "capplan", "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": f"pkg:pypi/capplan@{version}", "dependsOn": [one["bom-ref"] for one in components]}],
    }  # fmt: skip


def main() -> None:
    """Write the document into the file that is named."""
    parts = needed("capplan", EXTRAS)
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(distribution("capplan").version, parts), indent=1) + "\n", encoding="utf-8")
    unknown = [name for name, part in parts.items() if licence(part) is None]
    print(f"{target}: {len(parts)} parts; without a stated licence: {', '.join(unknown) or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    main()
