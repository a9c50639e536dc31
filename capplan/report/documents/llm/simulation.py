"""Simulations of LLM serving as JSON documents. Times in seconds; rates and tokens are those of one replica."""

from dataclasses import asdict
from typing import Any

from capplan.core.llm.simulation.load_answer import LoadAnswer
from capplan.core.llm.simulation.simulation import Simulation

SCHEMA_VERSION = 1
DEFINITIONS = {
    "ttft_s": "from arrival to the first token",
    "tpot_s": "(e2e_s - ttft_s) / (output tokens - 1), the mean of each request",
    "inclusive_tpot_s": "e2e_s / output tokens, which some tools call TPOT",
    "itl_s": "between any two tokens of a request, over all tokens",
    "e2e_s": "from arrival to the last token",
    "goodput_fraction": "share of the requests that keep every limit",
}


def simulation_document(found: Simulation) -> dict[str, Any]:
    """Write simulated loads as a document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": found.model,
        "gpu": found.gpu,
        "gpus": found.gpus,
        "engine": found.engine,
        "sequences_that_fit": int(found.sequences_that_fit),
        "saturation_rate_per_s": found.saturation_rate_per_s,
        "saturated_from_per_s": found.saturated_from_per_s,
        "limits": asdict(found.limits),
        "loads": [_answer(each, found) for each in found.answers],
        "definitions": DEFINITIONS,
        "notes": list(found.notes),
    }


def _answer(each: LoadAnswer, found: Simulation) -> dict[str, Any]:
    return {
        "label": each.label or None,
        "rate_per_s": each.rate_per_s,
        "concurrency": each.clients,
        "load_fraction": found.load_fraction(each),
        "requests": each.requests,
        "ttft_s": asdict(each.ttft_s),
        "tpot_s": asdict(each.tpot_s),
        "itl_s": asdict(each.itl_s) if each.itl_s else None,
        "e2e_s": asdict(each.e2e_s),
        "inclusive_tpot_s": each.inclusive_tpot_s,
        "output_tokens_per_s": each.output_tokens_per_s,
        "output_tokens_per_s_per_gpu": each.output_tokens_per_s / found.gpus,
        "output_tokens_per_s_per_user": each.output_tokens_per_s_per_user,
        "input_tokens_per_s": each.input_tokens_per_s,
        "goodput_fraction": each.goodput_fraction,
        "goodput_per_s": each.goodput_per_s,
        "mean_running": each.mean_running,
        "busy_fraction": each.busy_fraction,
        "cached_fraction": each.cached_fraction,
        "preemptions": each.preemptions,
        "keeps_up": each.keeps_up,
    }
