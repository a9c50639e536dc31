"""Check whole folders of specs and prices, as a reviewer would: the rules, and nothing left unchecked."""

from collections import Counter
from datetime import date
from pathlib import Path

from capplan.core.gpus.spec import SourceKind
from capplan.specs.folders import ARCHITECTURES, PRICES, built_in_folder, spec_files
from capplan.specs.gpus.load import Gpus, load_gpus
from capplan.specs.gpus.rules import shortcomings
from capplan.specs.prices import load_prices
from capplan.specs.strict_yaml import Problem, SpecFileError

_BEST_FIRST = (
    SourceKind.DATASHEET,
    SourceKind.MEASURED,
    SourceKind.SECONDARY,
    SourceKind.FORMULA,
    SourceKind.UNVERIFIED,
    SourceKind.EXAMPLE,
)


def validate_specs(path: Path | None = None) -> str:
    """Check the built-in specs, or a file or folder of own ones as it lies over them.

    Prices and architectures are checked with the whole folder that they belong to. What lies in the built-in folder is
    checked as it is there, not laid over itself.

    Returns:
        What was checked, and how its values are known.

    Raises:
        SpecFileError: everything that is wrong, each with file and key.
    """
    checked = path or built_in_folder()
    holder = checked.parent if checked.is_file() else checked
    if holder.name in (PRICES, ARCHITECTURES):
        checked = holder.parent
    overlays = () if checked.resolve().is_relative_to(built_in_folder().resolve()) else (checked,)
    files = spec_files(checked)
    gpus = load_gpus(overlays=overlays)
    problems = _shortcomings(gpus, [file.stem for file in files])
    try:
        load_prices(gpus, overlays=overlays)
    except SpecFileError as error:
        problems += error.problems
    if problems:
        raise SpecFileError(problems)
    counts = [(len(files), "GPU")]
    if checked.is_dir():
        counts.append((len(list((checked / ARCHITECTURES).glob("*.yaml"))), "architecture"))
        counts.append((len(list((checked / PRICES).glob("*.yaml"))), "price file"))
    counted = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    sheets = [gpus.sheets[file.stem] for file in files]
    exempted = sum(len(exemption.keys) for sheet in sheets for exemption in sheet.exemptions)
    figures = [entry.figure for sheet in sheets for entry in sheet.entries.values() if entry.figure.sources]
    best = Counter(min((source.kind for source in figure.sources), key=_BEST_FIRST.index) for figure in figures)
    shares = ", ".join(f"{best[kind]} {kind}" for kind in _BEST_FIRST if best[kind])
    return (
        f"{checked}: {counted} checked, nothing to mend\n"
        f"{len(figures)} values by their best source: {shares}; {exempted} exempted from a rule with a reason"
    )


def _shortcomings(gpus: Gpus, ids: list[str]) -> list[Problem]:
    today = date.today()
    return [
        problem
        for gpu_id in ids
        for problem in shortcomings(
            gpus[gpu_id], gpus.architectures[gpus[gpu_id].architecture_id], gpus.sheets[gpu_id], today=today
        )
    ]
