"""What the processes of the pool run in `test_pool`: what they are told, and with few imports."""

import os
import signal
import time
from collections.abc import Callable

from capplan.serve.planning.messages import Outcome, Reply, Task
from capplan.serve.settings import Settings


def make_test_planner(settings: Settings) -> Callable[[Task], Outcome]:
    """Return what works on, kills itself or answers with its process's id, by the words in the place of a GPU's name.

    `hold FLAG` works until there is a file of that name; each question that begins is a line of the file `begun`.
    """
    if (settings.state / "broken").exists():
        os.kill(os.getpid(), signal.SIGKILL)

    def answer(task: Task) -> Outcome:
        what, _, amount = task.question.gpu.partition(" ")  # type: ignore[attr-defined]
        with (settings.state / "begun").open("a") as begun:
            begun.write(f"{task.question.gpu}\n")  # type: ignore[attr-defined]
        while what == "hold" and not (settings.state / amount.partition(" ")[0]).exists():
            time.sleep(0.01)
        if what == "die" or (what == "die-once" and not (settings.state / amount).exists()):
            (settings.state / (amount or "died")).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Reply(content=str(os.getpid()).encode(), media_type="text/plain")

    return answer
