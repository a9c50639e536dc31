"""Time the start of a model: a new process for each, from the interpreter to the first answer."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.core.measurement.start import LATER_CALL, MeasuredStart, StartStep
from capplan.errors import MeasurementError

if TYPE_CHECKING:  # what imports PyTorch is imported after it has been timed
    from capplan.probe.measure.request import MeasurementJob


def measure_start(
    job: "MeasurementJob", *, name: str, batch: int, starts: int, timeout_s: float | None = None
) -> MeasuredStart:
    """Start a model several times, each in a process of its own with empty caches of compiled code.

    Weights are random, written once to a temporary file and read by every start: they come from the memory in which
    the system keeps files, not from the disk.

    Raises:
        MeasurementError: the weights cannot be written, or a start fails or takes longer than `timeout_s`.
    """
    with tempfile.TemporaryDirectory(prefix="capplan-start-") as folder:
        weights = Path(folder) / "weights.pt"
        _child(job, weights, batch=0, cache=folder, timeout_s=timeout_s)
        runs = []
        for number in range(starts):
            begun_s = time.perf_counter()
            _run([sys.executable, "-c", "pass"], "", os.environ, timeout_s)
            interpreter_s = time.perf_counter() - begun_s
            cache = str(Path(folder) / f"cache-{number}")
            runs.append({"Python": interpreter_s, **_child(job, weights, batch, cache=cache, timeout_s=timeout_s)})
        return MeasuredStart(
            name=name,
            device=job.device,
            batch=batch,
            weight_bytes=weights.stat().st_size,
            steps=tuple(StartStep(part=part, times_s=tuple(run[part] for run in runs)) for part in runs[0]),
        )


def _child(
    job: "MeasurementJob", weights: Path, batch: int, *, cache: str, timeout_s: float | None
) -> dict[str, float]:
    from capplan.probe.measure.request import job_to_json

    question = json.dumps({"job": job_to_json(job), "weights": str(weights), "batch": batch})
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
    answer = json.loads(_run([sys.executable, "-m", __name__], question, environment, timeout_s).splitlines()[-1])
    if isinstance(answer, str):
        raise MeasurementError(answer)
    return dict(answer)


def _run(words: list[str], question: str, environment: Any, timeout_s: float | None) -> str:
    try:
        done = subprocess.run(
            words, input=question, env=environment, timeout=timeout_s, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"a start took longer than {timeout_s:g} s, the ⟨timeout⟩.") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise MeasurementError(f"a start failed: {last[0]}")
    return done.stdout


def _start(question: dict[str, Any]) -> dict[str, float]:
    """Build a model and run it twice, in this process; with batch 0 write its weights instead."""
    times_s: dict[str, float] = {}
    begun_s = time.perf_counter()

    def note(part: str) -> None:
        nonlocal begun_s
        now_s = time.perf_counter()
        if part:
            times_s[part] = now_s - begun_s
        begun_s = now_s

    import torch

    note("PyTorch imported")
    from capplan.probe.measure.devices import open_device
    from capplan.probe.measure.model import host_threads, numeric_settings, prepared
    from capplan.probe.measure.request import job_from_json
    from capplan.probe.measure.session import target_of_machine

    job, weights, batch = job_from_json(question["job"]), Path(question["weights"]), question["batch"]
    device = open_device(job.device)
    note("")  # capplan's own modules do not belong to a start
    with torch.inference_mode(), device.current(), host_threads(job.threads), numeric_settings(job.precision):
        target = target_of_machine(job.model)
        note("the model's library imported")
        module = target.build()
        note("model built")
        if not batch:
            torch.save(module.state_dict(), weights)
            return {}
        module.load_state_dict(torch.load(weights, weights_only=True))
        note("weights read from memory")
        ready = prepared(target, module.to(device.torch_device), workload=job.workload, device=device.torch_device)
        device.synchronize()
        note("moved to the device, prepared")
        run = ready.runner(ready.make_inputs(batch))
        note("")
        for part in ("first call", LATER_CALL):
            run()
            device.synchronize()
            note(part)
    return times_s


def main() -> None:
    """Answer the question on standard input with one line: the times of the parts, or the sentence of an error."""
    from capplan.errors import CapplanError

    answer: dict[str, float] | str
    try:
        answer = _start(json.loads(sys.stdin.read()))
    except CapplanError as error:
        answer = str(error)
    except OSError as error:
        answer = f"the weights cannot be written: {error.strerror or error}."
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
