"""Which tests one worker runs, because they share what costs more than they do: a service, a cluster, a rendering."""

from typing import Any

from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "service": (
        "serve/test_api.py", "serve/test_assistant_questions.py", "serve/test_client.py", "serve/test_explain.py",
        "serve/test_faults.py", "serve/test_heads.py", "serve/test_mcp.py", "serve/test_page.py",
        "serve/test_safety.py",
    ),
    "bounded service": ("serve/test_load.py",),
    "cluster": ("app/sweep/test_cluster.py",),
    "measured lines": ("app/test_calibration.py",),
    "simulation": ("core/serving/test_simulation.py",),
    "fleet report": ("report/procurement/test_fleet_documents.py",),
    "report": ("report/procurement/test_report_formats.py",),
    "page of a report": ("report/procurement/test_report_html.py",),
    "wheel": ("specs/test_wheel.py",),
    "parsed package": ("test_house.py",),
    "ONNX's own cases": ("probe/onnx/test_operators.py",),
    "rows of a sweep": ("app/sweep/test_query.py",),
    "bent files": ("fuzz/test_any_data.py", "fuzz/test_any_llm_data.py", "fuzz/test_any_model_file.py"),
}  # fmt: skip
"""The files of each group, below `tests/`."""


class GroupScheduling(LoadScopeScheduling):
    """Hands out groups as a whole, those with the most tests first, and then all other tests one by one.

    xdist's own marker for groups does not reach its scheduler under pytest 9.2: xdist 3.8 writes the group into a
    node's `_nodeid`, which is no more.
    """

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self.groups = {f"tests/{file}": name for name, files in GROUPS.items() for file in files}

    def _split_scope(self, nodeid: str) -> str:
        return self.groups.get(nodeid.partition("::")[0], nodeid)
