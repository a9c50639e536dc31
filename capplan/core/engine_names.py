"""The engines that serve language models, by name."""

import re
from enum import StrEnum

from capplan.errors import UnknownNameError


class Engine(StrEnum):
    """Serving engines whose memory rules are known."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    LLAMACPP = "llama.cpp"


def find_engine(name: str) -> Engine:
    word = re.sub(r"[^a-z]", "", name.lower())
    known = {"vllm": Engine.VLLM, "sglang": Engine.SGLANG, "trtllm": Engine.TRTLLM, "tensorrtllm": Engine.TRTLLM}
    known["llamacpp"] = Engine.LLAMACPP
    if word not in known:
        names = [engine.value for engine in Engine]
        raise UnknownNameError("engine", name, names, hint=f"Known: {', '.join(names)}.")
    return known[word]


class Asleep(StrEnum):
    """What an engine wakes from instead of starting: vLLM's sleep modes, or a snapshot of GPU and host memory."""

    SLEEP_1 = "sleep-1"
    SLEEP_2 = "sleep-2"
    SNAPSHOT = "snapshot"
