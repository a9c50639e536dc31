"""Read the power and energy of serving runs, and the tables of the ML.ENERGY benchmark, which state them."""

from collections.abc import Mapping

from capplan.llm.core.serving.energy import MeasuredEnergy

ENERGY_COLUMNS = frozenset({"model", "gpu", "engine", "task", "max_num_seqs", "avg_batch", "avg_output_tokens", "gpus"})
"""The columns that a table of the ML.ENERGY benchmark has and a table of serving runs has not."""
_VERSION = "0.11"
"""The rows state no version of vLLM. They were published before 0.14, in the months of 0.11."""
_PLAIN_SAMPLING = "openai/gpt-oss"
"""Models whose published generation settings neither cut the likely tokens off nor count them (top-p, top-k)."""
_MOST_STEPS_WITH_PROMPTS = 0.5
"""Share of steps with prompts up to which the median gap between tokens is a step without any."""
METER_COLUMNS = (
    "power_w",
    "power_w_all_gpus",
    "joules_per_output_token",
    "joule_per_output_token",
    "avg_batch",
    "output_tokens_per_s",
)
"""Power and energy of all GPUs under either name, and the batch and rate that they were read at."""


def measured_energy(row: Mapping[str, float | None], *, task: str) -> MeasuredEnergy | None:
    """Return what a power meter read during a run; None where the row states no power and no energy.

    Args:
        row: Numbers of `METER_COLUMNS`: power of all GPUs [W], energy of an output token [J], running sequences,
            output [1/s].
        task: What the requests were for, as the ML.ENERGY benchmark names it; empty where requests are known.
    """
    power_w = row["power_w"] or row["power_w_all_gpus"]
    joules = row["joules_per_output_token"] or row["joule_per_output_token"]
    if not power_w and not joules:
        return None
    return MeasuredEnergy(
        power_w=power_w or None,
        joules_per_output_token=joules or None,
        running=row["avg_batch"] or None,
        output_tokens_per_s=row["output_tokens_per_s"] or None,
        task=task,
    )


def as_serving_row(row: Mapping[str, str], prompts: Mapping[str, int]) -> dict[str, str]:
    """Return a row of the ML.ENERGY benchmark in the columns of a table of serving runs.

    Its runs keep a replica full of `max_num_seqs` requests, of which `avg_batch` run on average. Their median time
    between tokens is that of a step without prompts, unless most steps hold one. Tensor and expert parallelism share
    the same GPUs; the table states the latter alone where experts are spread.

    Args:
        row: Text by column.
        prompts: Mean tokens of a prompt by task, which the table does not state.

    Raises:
        ValueError: A number of GPUs is not one.
    """
    gpus, ranks = int(row["gpus"]), int(row.get("dp", "") or 1)
    has_few_prompts = float(row["avg_batch"]) < _MOST_STEPS_WITH_PROMPTS * float(row["avg_output_tokens"])
    return {
        **row,
        "tp": str(max(1, gpus // ranks)),
        "weights": "",  # the model's own, which its name says
        "version": row.get("version", "") or _VERSION,
        "serving": "steady",
        "sampling": "greedy" if row["model"].startswith(_PLAIN_SAMPLING) else "filtered",
        "concurrency": row["avg_batch"],
        "tpot_ms": row.get("itl_median_ms", "") if has_few_prompts else "",
        "output_len": row["avg_output_tokens"],
        "input_len": row.get("input_len", "") or str(prompts.get(row["task"], "")),
    }
