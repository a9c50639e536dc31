"""Digests of what an answer of a sweep depends on: with equal digests it need not be computed again."""

import functools
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import Path

from capplan.app.pipelines.diffusers import find_pipeline
from capplan.app.sweep.request import LLM_PREFIX, SweepContext, SweepModel
from capplan.app.sweep.schema import SCHEMA_VERSION
from capplan.app.sweep.stages import imports_code
from capplan.app.trace_cache import TraceCache, TraceKey, files_named, library_versions
from capplan.core.gpus.spec import GpuSpec
from capplan.core.named_code import before_colon
from capplan.core.sweep.definition import AnyConditions, Conditions
from capplan.core.trace.format import dump_trace
from capplan.core.workload import Configuration
from capplan.files import PACKAGE, is_file, own_files
from capplan.llm.read.sources import find_model
from capplan.probe.target.names import ZOOS, former_names, source_names
from capplan.specs.fitted import load_pipeline_calibration

_CODE = ("app", "core", "llm", "probe")
_DIGITS = 24


def digest_of(value: object) -> str:
    """Return a digest of a value made of dataclasses, mappings, sequences, enums and plain values."""
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return sorted(([_plain(key), _plain(item)] for key, item in value.items()), key=str)
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    raise TypeError(f"no digest of a {type(value).__name__}")


def gpu_digest(gpu: GpuSpec) -> str:
    """Return the digest of what is calculated with; where figures were read changes no answer."""
    return digest_of(
        {field.name: getattr(gpu, field.name) for field in fields(gpu) if field.name not in ("figures", "notes")}
    )


@functools.cache
def code_digest() -> str:
    """Return the digest of the code that traces and plans, as it was when the process first asked.

    Files that are replaced later, by an upgrade beside a running service or notebook, are not the code that it runs.
    """
    digest = hashlib.sha256()
    for path in own_files(*_CODE):
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMaker:
    """Makes the keys of a run's units: what a model's answer under a workload depends on, GPUs and prices apart."""

    surroundings: str
    workloads: Mapping[str, str]
    cache: TraceCache | None

    @classmethod
    def of(cls, context: SweepContext, *, cache: TraceCache | None) -> "KeyMaker":
        same = [code_digest(), library_versions(), sys.version, SCHEMA_VERSION]
        calibrations = [context.calibration, context.memory_calibration, context.llm, context.power_law]
        return cls(
            surroundings=digest_of([same, digest_of(calibrations)]),
            workloads={label: digest_of(conditions) for label, conditions in context.workloads.items()},
            cache=cache,
        )

    def model_key(self, model: SweepModel, conditions: Iterable[AnyConditions]) -> str | None:
        """Return the digest of a model; None where it is not known without tracing it, or is unknown."""
        request = model.request
        if model.unknown is not None:
            return None
        if model.is_served:
            return digest_of(["served", find_model(request.words.removeprefix(LLM_PREFIX))])
        if model.is_pipeline:
            if imports_code(model):
                return None
            pipeline = find_pipeline(request.words)
            files = [_contents(part.model) for part in pipeline.parts]
            return digest_of(["pipeline", pipeline, files, load_pipeline_calibration(), model.pipeline.options])
        if is_file(request.words):
            return digest_of(["file", _contents(request.words), request.options])
        if _is_of_a_library(request.words) and not (request.inputs_from or request.prepare):
            return digest_of(["library", request.words, request.options])
        kept = [
            self._kept(model, asked.workload.configuration) for asked in conditions if isinstance(asked, Conditions)
        ]
        return None if None in kept else digest_of(["kept", request.words, request.options, kept])

    def failed_key(self, model: SweepModel) -> str:
        """Return the digest of a failed model, of which no trace is kept: its words, and the file that they name."""
        words = model.request.words
        return digest_of(["failed", words, model.label, _contents(before_colon(words)[0])])

    def _kept(self, model: SweepModel, configuration: Configuration) -> str | None:
        if self.cache is None:
            return None
        question = TraceKey(
            words=model.request.words, options=model.request.options, configurations=(configuration,), exact_batch=None
        )
        trace = self.cache.find(question)
        return None if trace is None else hashlib.sha256(dump_trace(trace, compress=False)).hexdigest()

    def unit_key(self, model_key: str, workload: str) -> str:
        """Return the digest of a model's answer under a workload."""
        return digest_of([self.surroundings, model_key, self.workloads[workload]])


def _contents(words: str) -> list[str]:
    """Return the digests of the files that words name; none where they name no file."""
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files_named(words)]


def _is_of_a_library(words: str) -> bool:
    library, colon, name = words.partition(":")
    if not colon:
        name = words.partition(".")[0]
        return any(name in source_names(zoo) or name in former_names(zoo) for zoo in ZOOS)
    if library in ZOOS:
        return True
    return library == "hf" and "/" not in name and not Path(name).exists() and not name.endswith(".json")
