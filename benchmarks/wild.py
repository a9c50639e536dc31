"""Trace models of libraries beyond the zoos and compare parameters and MACs with torch's own counter.

    python benchmarks/wild.py [--only TEXT] [--jobs 2]     writes docs/evidence/wild.csv and docs/evidence/wild.md

Each model runs in a process of its own. It is traced; then plain torch builds it and runs it once at batch 1 under
`torch.utils.flop_counter.FlopCounterMode`, whose count is the reference: on the meta device, or for real on the CPU
where the model cannot run without values.
"""

import argparse
import contextlib
import csv
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pages import EVIDENCE, write_section

ROOT = Path(__file__).resolve().parents[1]
TABLE, REPORT = EVIDENCE / "wild.csv", EVIDENCE / "wild.md"
LIMIT_S = 120
COLUMNS = (
    "library", "version", "model", "outcome", "cause", "parameters", "reference_parameters", "macs", "reference_macs",
    "reference_device", "exact_batch", "backend", "assumed", "uncounted", "built_on_cpu", "seconds",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose library:name contains this text; others are kept")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one", action="append", help=argparse.SUPPRESS)
    parser.add_argument("--missing", action="store_true", help="only what is not traced, not compared, or differs")
    parser.add_argument("--report", action="store_true", help="write the page from wild.csv alone")
    options = parser.parse_args()
    if options.one:
        import wild_models  # noqa: F401  # now, while this folder is on the path

        sys.path.remove(str(Path(__file__).parent))  # its coverage.py would stand in for the package of that name
        for key in options.one:
            print(json.dumps({"key": key, **examine(key)}), flush=True)
        return
    from wild_models import MODELS

    known = {f"{row['library']}:{row['model']}": row for row in read_table()}
    wanted: dict[str, list[str]] = {}
    for model in MODELS:
        if options.missing and is_settled(known.get(model.key)):
            continue
        if options.only in model.key and not options.report:
            wanted.setdefault(model.library, []).append(model.key)
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(run_library, *each) for each in wanted.items()]):
            for row in done.result():
                known[f"{row['library']}:{row['model']}"] = row
                print(row["library"], row["model"], row["outcome"], row["cause"], flush=True)
            write_table([known[model.key] for model in MODELS if model.key in known])
    rows = [known[model.key] for model in MODELS if model.key in known]
    write_table(rows)
    write_section(REPORT, "wild.py", render(rows))


def is_settled(row: dict[str, Any] | None) -> bool:
    return row is not None and row["outcome"] == "traced" and str(row["reference_macs"]) != "" and same_macs(row)


def run_library(library: str, keys: list[str]) -> list[dict[str, Any]]:
    """Examine a library's models in one process; what a crash or the time limit leaves out runs alone."""
    found = run_process(keys, limit_s=LIMIT_S * len(keys))
    for key in keys:
        if key not in found:
            found |= run_process([key], limit_s=LIMIT_S)
    empty = dict.fromkeys(COLUMNS, "") | {"library": library, "version": installed(library)}
    lost = {"outcome": "failed", "cause": f"crashed, or took longer than {LIMIT_S} s"}
    return [empty | {"model": key.partition(":")[2]} | found.get(key, lost) for key in keys]


def run_process(keys: list[str], *, limit_s: float) -> dict[str, dict[str, Any]]:
    words = [sys.executable, "-W", "ignore", __file__, *(word for key in keys for word in ("--one", key))]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
        lines = done.stdout
    except subprocess.TimeoutExpired as late:
        lines = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return {row.pop("key"): row for row in rows}


def installed(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


def examine(key: str) -> dict[str, Any]:
    """Trace one model and count it by torch's counter."""
    from wild_models import MODELS

    from capplan.core.ops.flops import kernel_macs, uncounted
    from capplan.errors import CapplanError
    from capplan.probe.inputs.tensors import FunctionInputs
    from capplan.probe.target.types import Target
    from capplan.probe.trace.tracer import trace_target

    model = next(model for model in MODELS if model.key == key)
    target = Target(
        name=model.name,
        words=key,
        library="package",
        builder=model.build,
        inputs=FunctionInputs(words=model.name, function=model.inputs),
    )
    started = time.perf_counter()
    try:
        trace = trace_target(target)
        if trace.recordings[0].exact_batch not in (None, 1):
            with contextlib.suppress(CapplanError):
                trace = trace_target(target, exact_batch=1)
    except CapplanError as error:
        return {"outcome": "failed", "cause": str(error)[:300]}
    recording = trace.recordings[0]
    batch = recording.exact_batch or 1
    counts = recording.calls_per_kernel()
    row: dict[str, Any] = {
        "outcome": "traced",
        "parameters": trace.parameter_count,
        "macs": sum(n * kernel_macs(kernel, batch) for kernel, n in zip(recording.kernels, counts, strict=True)),
        "exact_batch": recording.exact_batch or "",
        "backend": recording.backend,
        "assumed": sum(each.count for each in recording.assumed_values) or "",
        "uncounted": "; ".join(uncounted(recording)),
        "built_on_cpu": "yes" if any("built on the CPU" in note for note in trace.provenance.notes) else "",
        "seconds": round(time.perf_counter() - started, 1),
    }
    if model.hand_macs is not None:
        return row | {"reference_macs": model.hand_macs, "reference_parameters": trace.parameter_count}
    try:
        parameters, macs, device = reference(target, batch)
    except CapplanError as error:
        return row | {"cause": f"reference: {error}"[:200]}
    return row | {"reference_parameters": parameters, "reference_macs": macs, "reference_device": device}


def reference(target: Any, batch: int) -> tuple[int, int, str]:
    """Return parameters and MACs by torch's counter alone, and the device that it ran on.

    The model is built and run on the meta device by plain torch; where that fails, for real on the CPU.
    """
    import torch

    from capplan.errors import CapplanError

    try:
        with torch.device("meta"):
            return (*_count(target, batch, "meta"), "meta")
    except CapplanError:
        return (*_count(target, batch, "cpu"), "cpu")


def _count(target: Any, batch: int, device: str) -> tuple[int, int]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from capplan.probe.foreign.code import model_code
    from capplan.probe.foreign.constructors import _unless_large, initialisers_replaced, no_weights

    counter = FlopCounterMode(display=False)
    with (
        no_weights() if device == "meta" else initialisers_replaced(_unless_large),
        model_code("building the reference"),
    ):
        torch.manual_seed(0)
        module = target.builder().eval().requires_grad_(False)  # the counter hooks into gradients otherwise
    inputs = target.make_inputs(batch, device=torch.device(device))
    torch.backends.mha.set_fastpath_enabled(False)  # the counter sees no products inside fused kernels of the CPU
    with model_code("running the reference"), sdpa_kernel(SDPBackend.MATH), torch.no_grad(), counter:
        module(*inputs.args, **inputs.kwargs)
    return sum(p.numel() for p in module.parameters()), counter.get_total_flops() // 2


def read_table() -> list[dict[str, Any]]:
    if not TABLE.is_file():
        return []
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def write_table(rows: list[dict[str, Any]]) -> None:
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({column: row.get(column, "") for column in COLUMNS} for row in rows)


def render(rows: list[dict[str, Any]]) -> str:
    """Write the page: totals, then a row per model."""
    from wild_models import REASONS

    traced = [row for row in rows if row["outcome"] == "traced"]
    compared = [row for row in traced if str(row["reference_macs"]) not in ("", "None")]
    same = [row for row in compared if same_macs(row)]
    right = [row for row in traced if str(row["parameters"]) == str(row["reference_parameters"])]
    lines = [
        "Models built from their configurations, without weights, traced and compared with torch's own",
        "`FlopCounterMode` at batch 1, on the meta device or, where a model cannot run there, on the CPU. Remade by",
        "`python benchmarks/wild.py` where the libraries are installed (`capplan[wild]` has ten of them).",
        "",
        f"{len(rows)} models of {len({row['library'] for row in rows})} libraries: {len(traced)} traced; parameters "
        f"equal in {len(right)}; MACs compared in {len(compared)}, equal within 0.1 % in {len(same)}.",
        "",
        "| library | model | parameters | MACs | by torch | difference | how, and why they differ |",
        "| --- | --- | --: | --: | --: | --: | --- |",
    ]
    for row in rows:
        key = f"{row['library']}:{row['model']}"
        library = f"{row['library']} {row['version']}".strip()
        if row["outcome"] != "traced":
            cause = str(row["cause"]).replace("|", "\\|").replace("<", "&lt;")
            lines.append(f"| {library} | {row['model']} | | | | | not traced: {cause} |")
            continue
        lines.append(
            f"| {library} | {row['model']} | {int(row['parameters']):,} | {int(row['macs']):,} "
            f"| {reference_words(row)} | {difference(row)} | {remarks(row, REASONS.get(key, ''))} |"
        )
    return "\n".join([*lines, *published_lines(rows)]) + "\n"


def published_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Compare with what makers print; equal is what rounds to the digits printed."""
    from wild_models import MODELS

    traced = {f"{row['library']}:{row['model']}": row for row in rows if row["outcome"] == "traced"}
    printed_of = [(model, model.published) for model in MODELS if model.published and model.key in traced]
    lines = [
        "",
        "## Against published figures",
        "",
        f"{len(printed_of)} models of {len({model.library for model, _ in printed_of})} libraries whose makers print",
        "parameters or multiply-accumulates. *Equal* is what rounds to the digits printed. fvcore, with which",
        "pytorchvideo's table was made, counts batch norms as FLOPs, 0.09 G of X3D-S's 2.96: a part of the deviations.",
        "",
        "| library | model | parameters, printed | counted | | GMACs, printed | counted | | source |",
        "| --- | --- | --: | --: | --: | --: | --: | --: | --- |",
    ]
    for model, printed in printed_of:
        row = traced[model.key]
        parameters = against(printed.millions, int(row["parameters"]) / 1e6, " M")
        macs = against(printed.gmacs, int(row["macs"]) / 1e9, "")
        lines.append(f"| {model.library} | {model.name} | {parameters} | {macs} | {printed.source} |")
    return lines


def against(printed: str, counted: float, unit: str) -> str:
    """Format a printed figure, the counted one in as many digits, and how far they are apart."""
    if not printed:
        return " | | "
    digits = len(printed.partition(".")[2])
    away = "equal" if f"{counted:.{digits}f}" == printed else f"{counted / float(printed) - 1:+.1%}"
    return f"{printed}{unit} | {counted:,.{max(digits, 1)}f} | {away}"


def same_macs(row: dict[str, Any]) -> bool:
    macs, reference = int(row["macs"]), int(row["reference_macs"])
    return abs(macs - reference) <= 0.001 * max(reference, 1)


def reference_words(row: dict[str, Any]) -> str:
    return f"{int(row['reference_macs']):,}" if str(row["reference_macs"]) not in ("", "None") else "-"


def difference(row: dict[str, Any]) -> str:
    if str(row["reference_macs"]) in ("", "None"):
        return "-"
    macs, reference = int(row["macs"]), int(row["reference_macs"])
    if macs == reference:
        return "0"
    return f"{(macs / reference - 1) * 100:+.2f} %" if reference else "only here"


def remarks(row: dict[str, Any], reason: str) -> str:
    found = []
    if str(row["backend"]) not in ("", "meta"):
        found.append(f"run on {row['backend']} tensors")
    if row["built_on_cpu"]:
        found.append("built on the CPU")
    if str(row["exact_batch"]):
        found.append(f"sizes hold at batch {row['exact_batch']} only")
    if str(row["assumed"]):
        found.append(f"{row['assumed']} values assumed")
    if row["uncounted"]:
        found.append(f"uncounted: {row['uncounted']}")
    if str(row["parameters"]) != str(row["reference_parameters"]) and str(row["reference_parameters"]):
        found.append(f"{int(row['reference_parameters']):,} parameters by torch")
    if row["cause"]:
        found.append(str(row["cause"]).replace("|", "\\|").replace("<", "&lt;"))
    if reason:
        found.append(reason)
    return "; ".join(found)


if __name__ == "__main__":
    main()
