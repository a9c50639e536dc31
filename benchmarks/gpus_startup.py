"""CPU time of `capplan gpus` over all spec files, beside what it cannot do without.

python benchmarks/gpus_startup.py [RUNS]

The mark to stay below: twice the CPU time of `import typer`, plus what PyYAML itself takes for the same files.
"""

import resource
import subprocess
import sys

from capplan.specs.folders import built_in_folder

_YAML = """
import pathlib, yaml
folder = pathlib.Path({folder!r})
for path in [*folder.glob("*.yaml"), *folder.glob("architectures/*.yaml")]:
    yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
"""
_GPUS = "from capplan.cli.main import app; app(['gpus'])"


def cpu_s(code: str, runs: int) -> float:
    """The least CPU time, user and system, of several fresh interpreters that run some code. [s]"""
    times = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> None:
    """Print the times and the mark."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    python, typer = cpu_s("pass", runs), cpu_s("import typer", runs)
    yaml = cpu_s(_YAML.format(folder=str(built_in_folder())), runs) - python
    gpus = cpu_s(_GPUS, runs)
    print(
        f"python alone {1000 * python:.0f} ms, with import typer {1000 * typer:.0f} ms, YAML's own {1000 * yaml:.0f} ms"
    )
    print(f"capplan gpus {1000 * gpus:.0f} ms; the mark is {1000 * (2 * typer + yaml):.0f} ms")


if __name__ == "__main__":
    main()
