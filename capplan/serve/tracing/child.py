"""The process that traces one model, then ends: limits first, then the model's code, with what it may do narrowed.

A model of a library runs the library's code with arguments of the asker's. So nothing may be unpickled, started,
connected to or written here, whatever code asks for it, and memory and time are bounded by the system. Where the system
can, it refuses this, too, so that code which gets around Python's events gains nothing.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.errors import CapplanError, UsageError
from capplan.processes.confine import confine
from capplan.processes.system import be_nice, limit_self
from capplan.serve.planning.messages import Refusal, TraceJob

if TYPE_CHECKING:
    from capplan.core.trace.types import Trace

NICENESS = 10
_LARGEST_FILE_BYTES = 64 * 2**20
_REFUSED_EVENTS = frozenset(
    {
        "pickle.find_class", "marshal.loads", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork",
        "os.forkpty", "socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request", "os.remove", "os.rename",
        "os.rmdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate", "shutil.rmtree",
    }
)  # fmt: skip
"""Events of the interpreter that no trace of a library's model needs."""


def make_tracer(added_bytes: int, cpu_s: float, folder: str) -> Callable[[TraceJob], bytes | Refusal]:
    """Bind this process to its limits, and return what traces one model as the bytes of its file."""
    import capplan.serve.tracing.preload  # noqa: F401 - libraries count for no model; a fork has them already

    be_nice(NICENESS)
    limit_self(added_bytes=added_bytes, cpu_s=cpu_s, file_bytes=_LARGEST_FILE_BYTES)
    os.chdir(folder)
    tempfile.tempdir = folder
    confine(Path(folder))
    return lambda job: _content(job, Path(folder))


def _content(job: TraceJob, folder: Path) -> bytes | Refusal:
    """Return the trace of a model, or why there is none."""
    from capplan.core.trace.format import dump_trace

    try:
        return dump_trace(_traced(job, folder), compress=True)
    except CapplanError as error:
        return Refusal(message=str(error), exit_code=error.exit_code)
    except MemoryError:
        return Refusal(message=f"{job.request.words}: tracing needs more memory than allowed here.", exit_code=3)
    except RecursionError:
        return Refusal(message=f"{job.request.words}: its code recurses too deeply to be traced.", exit_code=3)


def _traced(job: TraceJob, folder: Path) -> "Trace":
    """Build the model under guard and trace it."""
    from capplan.app.feedback import SILENCE
    from capplan.app.models import TracedModel
    from capplan.probe.tracing_process import use_one_thread

    use_one_thread()
    if job.content is not None and job.request.words.startswith("hf:"):
        # Write the config where the model's words name it, with a model class that belongs to its architecture.
        import json

        from capplan.probe.tracing_process import model_classes

        content = json.loads(job.content)
        known = model_classes(content["model_type"])
        named = [name for name in content.pop("architectures", None) or [] if name in known]
        if named:
            content["architectures"] = named
        place = folder / job.request.words.removeprefix("hf:")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(content), encoding="utf-8")
    elif job.content is not None:
        (folder / job.request.words).write_bytes(job.content)
    sys.dont_write_bytecode = True
    _narrow(str(folder))
    model = TracedModel(words=job.request.words, request=job.request, feedback=SILENCE, cache=None)
    return model.trace([job.configuration], exact_batch=job.exact_batch)


def _narrow(folder: str) -> None:
    """Refuse from now on what no trace of a library's model needs: see `_REFUSED_EVENTS`, and writing elsewhere."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            _check_opening(folder, arguments[0], arguments[2])
        elif event in _REFUSED_EVENTS:
            if event == "marshal.loads" and sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
                return  # the import system itself unmarshals a module
            raise UsageError(f"the model's code asked for {event}, which the service does not allow.")

    sys.addaudithook(refuse)


def _check_opening(folder: str, path: Any, flags: Any) -> None:
    writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    if not writes or not isinstance(path, str | bytes):
        return
    full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links are not followed in a hook
    if not full.startswith(folder + os.sep) and full != os.devnull:
        raise UsageError("the model's code asked to write a file, which the service does not allow.")
