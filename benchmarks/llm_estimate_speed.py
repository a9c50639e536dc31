"""CPU time of one estimate of LLM serving: of the question alone, and of the whole command.

python benchmarks/llm_estimate_speed.py [RUNS]

The mark to stay below: 0.5 s for one estimate. The whole command also starts Python and imports numpy, YAML and typer;
what these take alone stands beside it. Ends with 1 where the estimate takes longer than the mark.
"""

import sys
import time

from gpus_startup import cpu_s

from capplan.app.deployments import Deployments
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.search.estimate import estimate_serving
from capplan.llm.core.search.room import served_demand
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus

MARK_S = 0.5
_COMMAND = "from capplan.cli.main import app; app({words!r}, standalone_mode=False)"
_WORDS = ["llm", "estimate", "qwen3-32b", "--gpu", "h100-sxm5-80gb", "--tp", "2", "--concurrency"]


def estimate_cpu_s(concurrencies: tuple[int, ...], runs: int) -> float:
    """The least CPU time of one estimate with everything read anew: GPUs, the model's config, the constants. [s]"""
    words = NamedDeployment(model="qwen3-32b", gpu="h100-sxm5-80gb", engine="vllm", sharding=Sharding(tensor=2))
    times = []
    for _ in range(runs):
        start = time.process_time()
        deployments = Deployments(gpus=load_gpus())
        demand = served_demand(deployments.find, words, input_len=1024, output_len=256)
        estimate_serving(deployments.find(words), demand, concurrencies, calibration=load_time_calibration())
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    """Print the times, and return 1 where the estimate misses the mark."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    one, nine = estimate_cpu_s((64,), runs), estimate_cpu_s(tuple(2**power for power in range(9)), runs)
    print(f"estimate at 64 clients {1000 * one:.0f} ms, at 1 to 256 clients {1000 * nine:.0f} ms of processor time")
    imports = cpu_s("import numpy, typer, yaml", runs)
    commands = [cpu_s(_COMMAND.format(words=[*_WORDS, clients]), runs) for clients in ("64", "1..256")]
    print(f"python with numpy, typer and YAML alone {1000 * imports:.0f} ms")
    print(f"whole command at 64 clients {1000 * commands[0]:.0f} ms, at 1 to 256 clients {1000 * commands[1]:.0f} ms")
    return int(one > MARK_S)


if __name__ == "__main__":
    sys.exit(main())
