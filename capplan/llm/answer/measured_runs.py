"""Measured runs of a deployment, as plans and simulations read them."""

from capplan.llm.core.search.measured_runs import check_runs, named_runs_of, runs_of, time_adjustment

__all__ = ["check_runs", "named_runs_of", "runs_of", "time_adjustment"]
