"""Check whole folders of specs and prices, as a reviewer would: the rules, and nothing left unchecked."""

from datetime import date
from pathlib import Path

from capplan.specs.folders import ARCHITECTURES, PRICES, built_in_folder, spec_files
from capplan.specs.gpus import Gpus, load_gpus
from capplan.specs.prices import load_prices
from capplan.specs.problems import Problem, SpecFileError
from capplan.specs.rules import shortcomings


def validate_specs(path: Path | None = None) -> str:
    """Check the built-in specs, or a file or folder of own ones as it lies over them.

    Returns:
        One line that says what was checked.

    Raises:
        SpecFileError: everything that is wrong, each with file and key.
    """
    folder = built_in_folder()
    own = path is not None and path.resolve() != folder.resolve()
    checked = path if path is not None and own else folder
    files = spec_files(checked)
    gpus = load_gpus(overlays=(checked,) if own else ())
    problems = _shortcomings(gpus, [file.stem for file in files])
    prices: tuple[Path, ...] = ()
    if checked.is_dir():
        prices = tuple(sorted((checked / PRICES).glob("*.yaml")))
        try:
            load_prices(gpus, overlays=(checked,) if own else ())
        except SpecFileError as error:
            problems += error.problems
    if problems:
        raise SpecFileError(problems)
    architectures = len(list((checked / ARCHITECTURES).glob("*.yaml")))
    exempted = sum(len(exemption.keys) for file in files for exemption in gpus.sheets[file.stem].exemptions)
    return (
        f"{checked}: {len(files)} GPUs, {architectures} architectures and {len(prices)} price files keep the rules, "
        f"{exempted} figures exempted with a reason"
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
