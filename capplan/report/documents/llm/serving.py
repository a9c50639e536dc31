"""Estimates and validations of LLM serving as JSON documents. Times in seconds, shares and errors as fractions."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from capplan.core.llm.serving.accuracy import Accuracy, ServingValidation
from capplan.core.llm.serving.estimate import ServingEstimate, ServingPoint
from capplan.core.llm.serving.explain import StepPart

SCHEMA_VERSION = 1


def estimate_document(estimate: ServingEstimate) -> dict[str, Any]:
    """Write an estimate as a document."""
    sharding = estimate.sharding
    return {
        "schema_version": SCHEMA_VERSION,
        "model": {"name": estimate.model, "params": estimate.params, "active_params": estimate.active_params},
        "gpu": estimate.gpu,
        "gpus": sharding.gpus,
        "tp": sharding.tensor,
        "pp": sharding.pipeline,
        "ep": sharding.expert,
        "dp": sharding.data,
        "engine": estimate.engine,
        "version": estimate.version or None,
        "weights": estimate.weights,
        "kv": estimate.kv,
        "input_len": estimate.input_len,
        "output_len": estimate.output_len,
        "sequences_that_fit": int(estimate.sequences_that_fit),
        "points": [_point(point, sharding.gpus) for point in estimate.points],
        "decode_step": [_part(part) for part in estimate.decode_parts],
        "prefill_step": [_part(part) for part in estimate.prefill_parts],
        "calibration": estimate.calibration,
        "measured": {"runs": estimate.measured_runs, "tpot_factor": estimate.measured_factor},
        "notes": list(estimate.notes),
    }


def _point(point: ServingPoint, gpus: int) -> dict[str, Any]:
    return {
        "concurrency": point.concurrency,
        "ttft_s": asdict(point.ttft_s),
        "tpot_s": asdict(point.tpot_s),
        "output_tokens_per_s": asdict(point.output_tokens_per_s),
        "output_tokens_per_s_per_gpu": point.output_tokens_per_s.expected / gpus,
        "output_tokens_per_s_per_user": 1.0 / point.tpot_s.expected,
        "e2e_s": point.e2e_s,
        "requests_per_s": point.requests_per_s,
        "running": point.running,
        "queued": point.queued,
        "evidence": point.evidence,
    }


def _part(part: StepPart) -> dict[str, Any]:
    return {key: value for key, value in asdict(part).items() if value is not None}


def validation_document(found: ServingValidation, *, by: Sequence[str]) -> dict[str, Any]:
    """Write a validation as a document: a cell for each metric and combination of columns.

    Args:
        found: The judged answers.
        by: Columns that make a cell.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "cells": [{**cell.key, "metric": str(cell.metric), **_accuracy(cell.accuracy)} for cell in found.cells(by)],
        "overall": {
            str(metric): _accuracy(accuracy) if accuracy else None for metric, accuracy in found.overall().items()
        },
        "skipped": [asdict(row) for row in found.skipped],
    }


def _accuracy(accuracy: Accuracy) -> dict[str, Any]:
    return asdict(accuracy)
