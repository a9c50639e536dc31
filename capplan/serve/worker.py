"""What the processes run that answer questions."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from capplan.serve.page import answers as _answers  # noqa: F401 - registers the answer to the page's form
from capplan.serve.page import results as _results  # noqa: F401 - and about a sweep's results
from capplan.serve.page.serving import form as _form  # noqa: F401 - and those about language models
from capplan.serve.planning.answer import answer
from capplan.serve.planning.data import Data, Folders
from capplan.serve.planning.messages import Outcome, Refusal, Task
from capplan.serve.settings import Settings

BUG = 70
"""The exit code of an exception that nothing expected, as of the command line."""


def make_planner(settings: Settings) -> Callable[[Task], Outcome]:
    """Load the data, and return what answers a task.

    Args:
        settings: how the service runs.
    """
    os.chdir(_own_folder(Folders(state=settings.state)))
    data = Data(settings)
    return lambda task: _outcome(task, data)


def _own_folder(folders: Folders) -> str:
    """Return an empty folder of this process's own, so that no word of a question names a file by accident."""
    folder = folders.empty / str(os.getpid())
    folder.mkdir(exist_ok=True)
    return str(folder)


def _outcome(task: Task, data: Data) -> Outcome:
    """Answer a task; what nothing expected becomes a refusal here, because one question must not end the process."""
    try:
        return answer(task, data)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        sys.stderr.write(f"capplan serve: unexpected {type(error).__name__} in {where.filename}, line {where.lineno}\n")
        return Refusal(
            message=f"unexpected {type(error).__name__} in {Path(where.filename).name}, line {where.lineno}; "
            "this is a bug in capplan.",
            exit_code=BUG,
        )
