"""Run a sweep: find what is not known yet, compute it on this machine or a cluster, keep it, and say what failed."""

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.feedback import Watcher
from capplan.app.measure.store import MeasurementStore
from capplan.app.models import may_name_trace
from capplan.app.sweep import tables
from capplan.app.sweep.expand import expand_sweep
from capplan.app.sweep.isolation import LocalEngine
from capplan.app.sweep.keys import KeyMaker, digest_of, gpu_digest
from capplan.app.sweep.measuring import (
    MEASUREMENTS,
    MeasuringDevice,
    RowName,
    local_places,
    measure_points,
    measured_names,
    measured_rows,
    points_to_measure,
)
from capplan.app.sweep.progress import PROGRESS_FILE, ProgressFile, Tally
from capplan.app.sweep.records import COMPLETE, PARTIAL, STATE_FOLDER, Unit, UnitName, has_state
from capplan.app.sweep.request import Sweep, SweepModel, SweepRequest
from capplan.app.sweep.stages import JobAnswer, PlanningJob
from capplan.app.sweep.store import (
    ROWS_PER_FILE,
    SweepStore,
    Wanted,
    empty_folder,
    read_contents,
    read_manifest,
    read_pending,
)
from capplan.app.sweep.tables import MeasuredRow
from capplan.app.trace_cache import TraceKey, default_cache, library_versions
from capplan.clock import now
from capplan.core.sweep.definition import Conditions, definition_to_json
from capplan.core.sweep.overview import SweepOverview, SweepPreview, group_failures
from capplan.errors import UsageError
from capplan.processes.system import cores
from capplan.specs import load_gpus
from capplan.specs.fitted import load_sweep_rates
from capplan.version import __version__

if TYPE_CHECKING:
    from capplan.app.sweep.cluster import RayEngine


def sweep(request: SweepRequest, *, watcher: Watcher | None = None) -> SweepOverview:
    """Plan every model on every GPU under every workload, and keep the rows in a folder.

    What the folder holds already is computed again only where the model, the versions, the calibration or the GPU
    changed. An interrupted sweep goes on where it stopped.
    """
    tables.arrow()
    _refuse_other_folder(request)
    asked = expand_sweep(request)
    if request.force and has_state(request.output):
        empty_folder(request.output)
    with SweepStore(folder=request.output) as store:
        run = _SweepRun(request=request, sweep=asked, store=store, watcher=watcher or Watcher())
        answer = run.answer()
        store.pack()
        return answer


def preview_sweep(request: SweepRequest) -> SweepPreview:
    """Count what a sweep would compute, and what of it is known already, without writing anything."""
    tables.arrow()
    _refuse_other_folder(request)
    asked = expand_sweep(request)
    store = SweepStore(folder=request.output)
    if not request.force and has_state(request.output):
        store.contents = read_contents(request.output)
        store.pending = list(read_pending(request.output))
    return _SweepRun(request=request, sweep=asked, store=store, watcher=Watcher()).preview()


def _refuse_other_folder(request: SweepRequest) -> None:
    """Refuse a folder that holds anything but results of this sweep."""
    folder = request.output
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"cannot write {folder}: it is not a folder.")
    if not has_state(folder):
        strange = [path.name for path in folder.iterdir() if path.name != STATE_FOLDER] if folder.exists() else []
        if strange:
            raise UsageError(f"{folder} holds {strange[0]}, which no sweep wrote; use an empty or new folder.")
        return
    if request.force:
        return
    manifest = read_manifest(folder)
    if not _is_same_sweep(request, manifest):
        raise UsageError(
            f"{folder} holds the results of another sweep ({manifest.get('sweep_file') or 'made in Python'}); use "
            "another folder, or add ⟨force⟩ to replace them."
        )


def _is_same_sweep(request: SweepRequest, manifest: Mapping[str, Any]) -> bool:
    """Return True if the folder's sweep is this one, perhaps with other entries.

    It is if the definition is equal, if it comes from the same file and asks for some of the same models, or if it asks
    for all that the folder's sweep asked for, so that its file may be renamed and grow.
    """
    definition = definition_to_json(request.definition)
    before = manifest.get("definition", {})
    if before == definition:
        return True
    if request.file is None:
        return False
    if manifest.get("sweep_file") == str(request.file.resolve()):
        return bool(_entries(before, "models") & _entries(definition, "models"))
    parts = ("models", "gpus", "workloads")
    return bool(before) and all(_entries(before, part) <= _entries(definition, part) for part in parts)


def _entries(definition: Mapping[str, Any], part: str) -> set[str]:
    return {str(entry) for entry in definition.get(part, [])}


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnitKeys:
    """The keys of a model's units by workload: of answers, where they are known without tracing, and of failures."""

    answered: Mapping[str, str]
    failed: Mapping[str, str]

    def of(self, workload: str, *, has_failed: bool) -> str:
        """Return the key of a unit; empty where it cannot be known again."""
        return self.answered.get(workload) or (self.failed[workload] if has_failed else "")

    def hold(self, unit: Unit) -> bool:
        """Return True if a finished unit has the key that it would have now."""
        if unit.workload not in self.failed:
            return False
        return bool(unit.key) and unit.key == self.of(unit.workload, has_failed=unit.failed is not None)


@dataclass(slots=True, kw_only=True)
class _SweepRun:
    request: SweepRequest
    sweep: Sweep
    store: SweepStore
    watcher: Watcher
    _keys: KeyMaker | None = None
    _gpus: Mapping[str, str] = field(default_factory=dict)

    def preview(self) -> SweepPreview:
        """Count what is asked, and what is left to compute. Nothing is written."""
        self._make_keys()
        workloads, cache = self.sweep.context.workloads, default_cache()
        sizes = {name: len(conditions.sizes) for name, conditions in workloads.items()}
        of_workload = {
            name: sum(name in self.sweep.workloads_of(model) for model in self.sweep.models) * len(self._gpus) * size
            for name, size in sizes.items()
        }
        everything = list(self._jobs())
        jobs = [job for job in everything if job.model.unknown is None]
        planned = [job for job in jobs if not job.model.is_served]
        questions = {
            job.model.label: {
                TraceKey(
                    words=job.model.request.words,
                    options=job.model.request.options,
                    configurations=(conditions.workload.configuration,),
                )
                for name in job.asked
                if isinstance(conditions := workloads[name], Conditions)
            }
            for job in planned
            if not may_name_trace(job.model.request.words)
        }
        kept = {label: sum(cache is not None and cache.holds(q) for q in asked) for label, asked in questions.items()}

        def cells(job: PlanningJob) -> int:
            return sum(len(gpus) * sizes[name] for name, gpus in job.asked.items())

        rules = ["what ⟨measure⟩ would time is not counted"] if self.request.measure else []
        return SweepPreview(
            folder=str(self.request.output),
            models=len(self.sweep.models),
            gpus=len(self._gpus),
            workloads=len(workloads),
            batches=sum(sizes.values()),
            cells=sum(of_workload.values()),
            files=sum(1 + count // ROWS_PER_FILE for count in of_workload.values()),
            pairs=sum(len(job.asked) for job in planned),
            to_plan=sum(map(cells, planned)),
            to_serve=sum(cells(job) for job in jobs if job.model.is_served),
            kept_cells=sum(of_workload.values()) - sum(map(cells, everything)),
            models_to_trace=len(questions),
            traced_models=sum(kept[label] == len(asked) for label, asked in questions.items()),
            traces=sum(map(len, questions.values())),
            kept_traces=sum(kept.values()),
            rates=load_sweep_rates(),
            unknown=tuple(model.unknown for model in self.sweep.models if model.unknown is not None),
            notes=(*self.sweep.notes, *rules),
        )

    def _make_keys(self) -> None:
        self._keys = KeyMaker.of(self.sweep.context, cache=default_cache())
        self._gpus = {gpu.id: gpu_digest(gpu) for gpu in self.sweep.context.gpus.values()}

    def answer(self) -> SweepOverview:
        self._make_keys()
        units = frozenset((model.label, name) for model in self.sweep.models for name in self.sweep.workloads_of(model))
        wanted = Wanted(units=units, gpus=self._gpus, rents=self.sweep.rents, measured=self._measured())
        known = self.store.contents.manifest.get("prices", {})
        rewrites = bool(self.store.contents.files) and known.get("digest") != self._price_digest()
        # Write a manifest first, so that a folder whose run was killed is known to be this sweep's.
        if not self.store.contents.manifest:
            self.store.write_manifest(self._manifest(PARTIAL))
        self._drop_other_pending()
        jobs = list(self._jobs())
        tally = Tally(models=len(self.sweep.models), kept=len(self.sweep.models) - len(jobs))
        self.watcher.started(tally.standing())
        progress = ProgressFile(path=self.request.output / STATE_FOLDER / PROGRESS_FILE)
        progress.write(tally.standing())
        try:
            self._compute(jobs, tally, wanted, progress)
        except BaseException:
            self.store.commit_new(wanted, self._manifest(PARTIAL))
            self.store.settle(self._manifest(PARTIAL))
            raise
        finally:
            progress.remove()
        self.store.commit_all(wanted, self._manifest(COMPLETE), rewrites=rewrites)
        notes = [*self.sweep.notes, *self._measure(wanted)] if self.request.measure else self.sweep.notes
        standing = tally.standing()
        self.watcher.ended(standing)
        contents = self.store.contents
        failures = [(unit.model, unit.failed) for unit in contents.units.values() if unit.failed]
        return SweepOverview(
            folder=str(self.request.output),
            standing=standing,
            gpus=len(self._gpus),
            workloads=len(self.sweep.context.workloads),
            rows=contents.rows,
            files=len(contents.files),
            answered=len(contents.units) - len(failures),
            failures=group_failures(failures),
            measured=len(self._measured()),
            notes=tuple(notes),
        )

    def _measured(self) -> dict[RowName, MeasuredRow]:
        return measured_rows(self._measurements)

    @property
    def _measurements(self) -> Path:
        return self.request.output / STATE_FOLDER / MEASUREMENTS

    def _measure(self, wanted: Wanted) -> list[str]:
        """Time what fits on the devices at hand, write it beside the theory, and return what the reader must know."""
        places, devices = self._places()
        if not places:
            listed = ", ".join(f"{name} ({label})" for name, label in devices.items())
            return [f"nothing was measured: none of the sweep's GPUs is at hand, only {listed}"]
        tasks = points_to_measure(
            self.request.output,
            self.store.contents,
            self.sweep,
            gpus={place.gpu for place in places},
            known=measured_names(self._measurements),
            rules=self.request.measuring,
        )
        failures = []
        with MeasurementStore(self._measurements) as lines:
            for timed in measure_points(places, tasks, lines):
                self.watcher.measured(timed.task.model.label, timed.task.gpu.id, timed.task.batch)
                if timed.failed is not None:
                    failures.append((timed.task.model.label, timed.failed))
        self.store.commit_all(replace(wanted, measured=self._measured()), self._manifest(COMPLETE), rewrites=True)
        return [f"{group.count} points were not measured: {group.reason}" for group in group_failures(failures)]

    def _places(self) -> tuple[list[MeasuringDevice], dict[str, str]]:
        known = load_gpus(overlays=self.request.specs)
        if self.request.ray is not None:
            from capplan.app.sweep.cluster import cluster_places

            return cluster_places(self.request.ray, known, self._gpus)
        return local_places(known, self._gpus)

    def _drop_other_pending(self) -> None:
        """Drop pending answers to other questions."""
        if not self.store.pending:
            return
        keys = {model.label: self._unit_keys(model) for model in self.sweep.models}
        self.store.drop_pending([
            job
            for job in self.store.pending
            if not all(unit.model in keys and keys[unit.model].hold(unit) for unit in job.units)
        ])  # fmt: skip

    def _jobs(self) -> Iterator[PlanningJob]:
        """Find what is not known yet."""
        pending = self.store.pending_units()
        for model in self.sweep.models:
            keys = self._unit_keys(model)
            asked = {
                workload: missing
                for workload in self.sweep.workloads_of(model)
                if (missing := self._missing((model.label, workload), keys, pending))
            }
            if asked:
                yield PlanningJob(model=model, asked=asked)

    def _unit_keys(self, model: SweepModel) -> "_UnitKeys":
        assert self._keys is not None
        keys, workloads = self._keys, self.sweep.workloads_of(model)
        conditions = [self.sweep.context.workloads[name] for name in workloads]
        model_key, failed_key = keys.model_key(model, conditions), keys.failed_key(model)
        return _UnitKeys(
            answered={name: keys.unit_key(model_key, name) for name in workloads} if model_key else {},
            failed={name: keys.unit_key(failed_key, name) for name in workloads},
        )

    def _missing(self, name: UnitName, keys: "_UnitKeys", pending: Mapping[UnitName, list[Unit]]) -> tuple[str, ...]:
        """Return the GPUs for which a unit must be computed."""
        committed = self.store.contents.units.get(name)
        known = [*([committed] if committed else []), *pending.get(name, ())]
        if self.request.retry_failed:
            known = [unit for unit in known if not unit.failed]
        held = {gpu: digest for unit in known if keys.hold(unit) for gpu, digest in unit.gpus.items()}
        return tuple(gpu for gpu, digest in self._gpus.items() if held.get(gpu) != digest)

    def _compute(self, jobs: list[PlanningJob], tally: Tally, wanted: Wanted, progress: ProgressFile) -> None:
        uncommitted = 0
        for job, answer in self._engine(len(jobs)).run(jobs):
            rows = self._keep(job, answer)
            tally.finished += 1
            tally.rows += rows
            tally.failed += bool(answer.failed)
            for workload, failed in answer.failed.items():
                self.watcher.failed(job.model.label, workload, failed)
            self.watcher.moved(tally.standing())
            progress.write(tally.standing())
            uncommitted += rows
            if uncommitted >= ROWS_PER_FILE:
                self.store.commit_new(wanted, self._manifest(PARTIAL))
                uncommitted = 0

    def _engine(self, jobs: int) -> "LocalEngine | RayEngine":
        if self.request.ray is not None:
            from capplan.app.sweep.cluster import RayEngine

            return RayEngine(context=self.sweep.context, address=self.request.ray, limits=self.request.limits)
        workers = min(self.request.workers or cores(), max(1, jobs))
        return LocalEngine(context=self.sweep.context, workers=workers, limits=self.request.limits)

    def _keep(self, job: PlanningJob, answer: JobAnswer) -> int:
        """Write a job's rows into the folder, and return their number."""
        assert answer.rows is not None
        keys = self._unit_keys(job.model)
        units = [
            Unit(
                model=job.model.label,
                workload=workload,
                key=keys.of(workload, has_failed=workload in answer.failed),
                gpus={gpu: self._gpus[gpu] for gpu in gpus},
                failed=answer.failed.get(workload),
            )
            for workload, gpus in job.asked.items()
        ]
        self.store.add(answer.rows, units)
        return answer.count

    def _price_digest(self) -> str:
        return digest_of({gpu: self.sweep.rents.get(gpu) for gpu in self._gpus})

    def _manifest(self, state: str) -> dict[str, Any]:
        request, context = self.request, self.sweep.context
        rents = [self.sweep.rents[gpu] for gpu in context.gpus if gpu in self.sweep.rents]
        days = sorted(rent.date.isoformat() for rent in rents)
        moment = now().isoformat(timespec="seconds")
        return {
            "state": state,
            "created": self.store.contents.manifest.get("created") or moment,
            "updated": moment,
            "command": request.command,
            "sweep_file": str(request.file.resolve()) if request.file else None,
            "definition": definition_to_json(request.definition),
            "versions": {"capplan": __version__, "python": platform.python_version(), **library_versions()},
            "calibration": {"name": context.calibration.name, "digest": digest_of(context.calibration)},
            "memory_calibration": {"digest": digest_of(context.memory_calibration)},
            "prices": {
                "digest": self._price_digest(), "gpus_with_a_price": len(rents), "first_day": days[0] if days else None,
                "last_day": days[-1] if days else None,
            },
            "models": len(self.sweep.models),
            "gpus": list(context.gpus),
            "workloads": list(context.workloads),
        }  # fmt: skip
