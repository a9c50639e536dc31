"""capplan: which GPU fits a model, how fast it runs there and what it costs, before anyone buys one.

The verbs of the command line, for Python callers. Importing capplan loads neither torch nor numpy.
"""

from capplan.api.client import Client
from capplan.api.verbs import (
    analyze,
    calibrate,
    compare,
    estimate,
    load_gpus,
    load_trace,
    make_report,
    measure,
    memory,
    plan,
    read_sweep,
    sweep,
    trace,
    validate,
)
from capplan.version import __version__

__all__ = [
    "Client",
    "__version__",
    "analyze",
    "calibrate",
    "compare",
    "estimate",
    "load_gpus",
    "load_trace",
    "make_report",
    "measure",
    "memory",
    "plan",
    "read_sweep",
    "sweep",
    "trace",
    "validate",
]
