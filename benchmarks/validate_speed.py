"""`capplan validate` on a made-up file of a million rows, time and memory: `python benchmarks/validate_speed.py [N]`.

A fiftieth of the rows has a negative time, an eighth an unknown GPU; the models are tiny, and traced once.
"""

import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = ("timm:test_resnet", "timm:test_vit", "timm:test_efficientnet", "timm:test_convnext")
GPUS = ("rtx-4090", "rtx-3090", "l4", "t4", "a100-sxm4-80gb", "h100-sxm5-80gb", "l40s", "no-such-gpu")
HEAD = "model,gpu,framework,torch,precision,layout,task,batch,input_size,latency_ms\n"


def write_rows(path: Path, count: int) -> None:
    chance = random.Random(1)
    with path.open("w") as stream:
        stream.write(HEAD)
        for index in range(count):
            batch = 2 ** chance.randrange(11)
            latency_ms = -1.0 if index % 50 == 0 else max(0.3, 0.01 * batch) * chance.lognormvariate(0, 0.3)
            precision, layout = chance.choice(("fp32", "amp-fp16", "fp16")), chance.choice(("nchw", "nhwc"))
            stream.write(
                f"{chance.choice(MODELS)},{chance.choice(GPUS)},eager,2.9,{precision},{layout},infer,{batch},,"
                f"{latency_ms:.4f}\n"
            )


def main(count: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.csv"
        write_rows(path, count)
        command = [sys.executable, "-c", "from capplan.cli.main import main; main()", "validate", str(path)]
        begun = time.perf_counter()
        done = subprocess.run(
            [*command, "--by", "gpu,layout,precision", "--plot", str(Path(folder) / "plot.svg")],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        elapsed_s = time.perf_counter() - begun
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return done.returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{count} rows: {elapsed_s:.1f} s ({used.ru_utime:.1f} s of processor), {used.ru_maxrss / 2**10:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
