"""Recipes for contributors; `.ci/run` uses the same. `nox -l` lists them, `nox -s fast lint` runs two.

They run in the environment that nox was started from (README, second command), so that nothing is installed twice.
"""

import re
import shutil
import tomllib
from itertools import chain
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["fast", "lint", "types", "imports"]

WORKERS = "auto"
"""One per core, as tests/conftest.py counts them; `CAPPLAN_TEST_WORKERS=8` uses eight."""


@nox.session
def tests(session: nox.Session) -> None:
    """Run the README's tests, with branch coverage, and compare each package with its floor."""
    session.run("python", "-m", "pytest", "-n", WORKERS, "--cov", *session.posargs)
    coverage(session)


@nox.session
def fast(session: nox.Session) -> None:
    """Run the quick tests that need no model library, no browser and no office program."""
    session.run("python", "-m", "pytest", "-n", WORKERS, "-m", FAST, *session.posargs)


FAST = "not nightly and not zoo and not wild and not slow and not browser and not office and not device"
"""What `fast` selects."""


@nox.session
def golden(session: nox.Session) -> None:
    """Compare whole outputs of all verbs with the kept ones; `python -m tests.golden` shows every difference."""
    session.run("python", "-m", "pytest", "-n", WORKERS, "tests/golden", *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """Run all that is marked `nightly`, then more kills, and a hundred examples of each law."""
    session.run("python", "-m", "pytest", "-n", WORKERS, "-m", "nightly", *session.posargs, env=NIGHTLY)
    session.run("python", "-m", "pytest", "-n", WORKERS, *FUZZED, "tests/faults", env=NIGHTLY)


NIGHTLY = {"CAPPLAN_TEST_EXAMPLES": "100", "CAPPLAN_FUZZ_CASES": "1000", "CAPPLAN_FAULTS": "20"}
"""How many examples a law, cases a bent file and kills a command get at night."""


@nox.session(python=["3.11", "3.12", "3.13", "3.14"], venv_backend="venv", reuse_venv=True)
def pythons(session: nox.Session) -> None:
    """Run the fast tests under each Python that capplan supports, in an environment of its own."""
    session.install("-q", "-c", "constraints.txt", "-e", ".[zoo,report,measure,sweep,serve,mcp,test]")
    session.run("python", "-m", "pytest", "-n", WORKERS, "-m", FAST, *session.posargs)


@nox.session(python="3.11", venv_backend="venv", reuse_venv=True)
def oldest(session: nox.Session) -> None:
    """Run the fast tests with the oldest release of every dependency that pyproject.toml admits."""
    session.install("-q", "-e", ".[test]")
    session.install("-q", *oldest_releases(Path("pyproject.toml").read_text(encoding="utf-8")))
    session.run("python", "-m", "pytest", "-n", WORKERS, "-m", FAST, *session.posargs)


def oldest_releases(project: str) -> list[str]:
    """Return the lower bounds of what capplan and its users' extras need as releases: torch>=2.9 as torch==2.9.*."""
    tables = tomllib.loads(project)["project"]
    users = ("zoo", "report", "measure", "sweep", "serve", "onnx")  # the library of the Hub is that of transformers
    needs = chain(tables["dependencies"], *(tables["optional-dependencies"][name] for name in users))
    bounds = [re.fullmatch(r"([\w.-]+)>=([\d.]+)", one) for one in needs]
    return sorted({f"{found[1]}=={found[2]}.*" for found in bounds if found})


@nox.session
def advisories(session: nox.Session) -> None:
    """Compare the pinned versions with the database of known vulnerabilities. Needs a network."""
    session.install("-q", "pip-audit")
    session.run("python", "-m", "pip_audit", "-r", "constraints.txt", "--no-deps", "--disable-pip")


@nox.session
def parts(session: nox.Session) -> None:
    """Write what a release is installed with, its versions and licences, into dist/capplan.cdx.json."""
    session.run("python", ".ci/parts.py", "dist/capplan.cdx.json")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and form with ruff."""
    session.run("python", "-m", "ruff", "check", ".")
    session.run("python", "-m", "ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy --strict."""
    session.run("python", "-m", "mypy")


@nox.session
def imports(session: nox.Session) -> None:
    """Check the import rules: layers, no circles, one door for each third party."""
    session.run("python", "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site into site/, every warning an error. Needs the extra `docs`."""
    session.run("python", "-m", "mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def coverage(session: nox.Session) -> None:
    """Compare the branch coverage of the last run of all tests with the floor of each package."""
    session.run("python", ".ci/coverage_floors.py")


@nox.session
def prices(session: nox.Session) -> None:
    """Report which built-in prices are over half a year old or of unknown age; a reminder that fails nothing."""
    session.run("python", ".ci/stale_prices.py")


@nox.session
def facts(session: nox.Session) -> None:
    """Report which facts of engines, drivers and GPUs were looked up over 120 days ago; it fails nothing."""
    session.run("python", ".ci/stale_facts.py")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Search for inputs that break a law: 20,000 cases of each kind of hostile file, 1,000 examples of a law."""
    session.run("python", "-m", "pytest", "-n", WORKERS, "--timeout=0", *(session.posargs or FUZZED), env=FUZZING)


FUZZED = ["tests/fuzz", "tests/specs/test_any_input.py", "tests/core", "tests/shapes"]
"""Where the laws are."""
FUZZING = {"CAPPLAN_TEST_EXAMPLES": "1000", "CAPPLAN_FUZZ_CASES": "20000"}
"""How many examples a law and a bent file get."""


@nox.session
def examples(session: nox.Session) -> None:
    """Make the README's worked example and the reports in examples/ anew, after a refit or new prices."""
    session.run("python", "examples/renew.py")


@nox.session
def speed(session: nox.Session) -> None:
    """Measure how fast capplan itself is, on an idle machine."""
    session.run("python", "-m", "benchmarks.speed")


@nox.session
def clean(session: nox.Session) -> None:
    """Remove what the other recipes leave behind."""
    for folder in ("site", "build", "htmlcov"):
        shutil.rmtree(folder, ignore_errors=True)
    Path(".coverage").unlink(missing_ok=True)
    session.log("removed site, build, htmlcov and .coverage")
