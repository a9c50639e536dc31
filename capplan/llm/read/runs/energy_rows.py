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
_FEW_STEPS_WITH_PROMPTS = 0.1
"""Share of steps with prompts up to which the 90th percentile of the gaps is that of a step without any, too."""
_MOST_UNEVEN = 1.25
"""Ratio of the 90th percentile of these gaps to their median from which on something else than the GPU delays steps.

With as few prompts it is 1.0 to 1.26 in the 92 rows of H100, and above 1.25 in one; in 56 of the 103 rows of B200 it is
above, up to 2.6. Those hold the steps of 17 to 44 ms with 8 sequences that all models take on GPQA, 8 to 32 billion
parameters alike, while the GPU draws a third of its power: the host did not keep up."""
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
    between tokens is that of a step without prompts, unless most steps hold one, or the gaps are uneven without them.
    Tensor and expert parallelism share the same GPUs; the table states the latter alone where experts are spread.

    Args:
        row: Text by column.
        prompts: Mean tokens of a prompt by task, which the table does not state.

    Raises:
        ValueError: A number of GPUs is not one.
    """
    gpus, ranks = int(row["gpus"]), int(row.get("dp", "") or 1)
    with_prompts = float(row["avg_batch"]) / float(row["avg_output_tokens"])
    uneven = float(row.get("itl_p90_ms", "") or 0.0) > _MOST_UNEVEN * float(row.get("itl_median_ms", "") or 1.0)
    is_step = with_prompts < _MOST_STEPS_WITH_PROMPTS and not (uneven and with_prompts < _FEW_STEPS_WITH_PROMPTS)
    return {
        **row,
        "tp": str(max(1, gpus // ranks)),
        "weights": "",  # the model's own, which its name says
        "version": row.get("version", "") or _VERSION,
        "serving": "steady",
        "sampling": "greedy" if row["model"].startswith(_PLAIN_SAMPLING) else "filtered",
        "concurrency": row["avg_batch"],
        "tpot_ms": row.get("itl_median_ms", "") if is_step else "",
        "output_len": row["avg_output_tokens"],
        "input_len": row.get("input_len", "") or str(prompts.get(row["task"], "")),
    }
