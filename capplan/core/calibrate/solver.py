"""Robust least squares with Gaussian priors: Levenberg-Marquardt with Huber weights, in numpy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.core.numbers import FloatArray

Model = Callable[[FloatArray], FloatArray]
Jacobian = NDArray[np.floating[Any]]
Derivatives = Callable[[FloatArray], tuple[FloatArray, Jacobian]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastSquares:
    """Residuals to make small, and what is believed of the parameters beforehand.

    `residuals` maps parameters to residuals in units of their own spread; `derivatives` gives them with
    the Jacobian. `row_weight` weighs rows; beyond `huber` spreads a residual counts linearly.
    """

    residuals: Model
    derivatives: Derivatives
    row_weight: FloatArray
    prior_mean: FloatArray
    prior_sd: FloatArray
    huber: float = 1.0

    def cost(self, parameters: FloatArray) -> float:
        """Return the negative log posterior, up to a constant."""
        residuals = np.abs(self.residuals(parameters))
        loss = np.where(residuals <= self.huber, 0.5 * residuals**2, self.huber * (residuals - 0.5 * self.huber))
        return float(self.row_weight @ loss + 0.5 * (((parameters - self.prior_mean) / self.prior_sd) ** 2).sum())


def minimise(problem: LeastSquares, start: FloatArray, *, iterations: int = 30, tolerance: float = 1e-4) -> FloatArray:
    """Find the most probable parameters; stops when a step improves the cost by less than `tolerance` of it."""
    parameters, cost, damping = start, problem.cost(start), 1e-3
    precision = 1 / problem.prior_sd**2
    for _ in range(iterations):
        residuals, jacobian = problem.derivatives(parameters)
        robust = np.minimum(1.0, problem.huber / np.maximum(np.abs(residuals), 1e-12)) * problem.row_weight
        scaled = jacobian * np.sqrt(robust)[:, None].astype(jacobian.dtype)
        normal = (scaled.T @ scaled).astype(np.float64) + np.diag(precision)
        gradient = jacobian.T @ (robust * residuals) + (parameters - problem.prior_mean) * precision
        accepted = False
        while not accepted and damping < 1e6:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
            candidate = parameters - np.clip(step, -1.0, 1.0)
            candidate_cost = problem.cost(candidate)
            accepted = candidate_cost < cost
            damping = damping / 5 if accepted else damping * 5
        if not accepted:
            return parameters
        gain, parameters, cost = cost - candidate_cost, candidate, candidate_cost
        if gain < tolerance * cost:
            break
    return parameters
