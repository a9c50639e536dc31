"""Find the pipeline that words name: a file, one that comes with capplan, a diffusers pipeline, or a folder of one."""

from pathlib import Path

from capplan.app.pipelines.diffusers import diffusers_pipeline
from capplan.core.pipelines.types import Pipeline
from capplan.errors import UsageError
from capplan.files import is_file
from capplan.probe.diffusers.index import PREFIX, is_known
from capplan.specs.pipelines.file import KNOWN_PREFIX, SUFFIXES, known_file, known_names, read_pipeline


def names_pipeline(words: str) -> bool:
    """Return True if words name a whole pipeline; a component or a class of diffusers is a model like any other."""
    if words.endswith(SUFFIXES) or words.startswith(KNOWN_PREFIX):
        return True
    if not words.startswith(PREFIX):
        return False
    rest = words.removeprefix(PREFIX)
    if is_known(rest):
        return True
    named = rest.partition(".")[0]
    is_class = "/" not in rest and named.isidentifier() and named[:1].isupper()
    return not is_class and not is_known(rest.rpartition("/")[0])


def find_pipeline(words: str) -> Pipeline:
    """Return the pipeline that words name.

    Raises:
        UsageError: there is no such file or pipeline, or it is refused.
    """
    if words.startswith(PREFIX):
        return diffusers_pipeline(words.removeprefix(PREFIX))
    if words.startswith(KNOWN_PREFIX):
        return read_pipeline(known_file(words.removeprefix(KNOWN_PREFIX)))
    if not is_file(words):
        raise UsageError(f"there is no pipeline file {words}; {KNOWN_PREFIX}NAME are {', '.join(known_names())}.")
    return read_pipeline(Path(words))
