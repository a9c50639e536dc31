"""A difference of two plans as people read it."""

from capplan.report.render import render
from capplan.report.sections import Format
from capplan.report.text.plan import change_sections
from capplan.shapes.saved import Change


def test_figures_are_written_in_the_unit_that_their_name_ends_in() -> None:
    changes = [
        Change(where="l4", what="memory_bytes", before=817889280.0, after=None),  # 780 · 2²⁰ bytes
        Change(where="l4", what="latency_s", before=0.0215742, after=0.0340349),
        Change(where="l4", what="throughput_per_s", before=1483.25, after=940.211),
        Change(where="model", what="params", before=25557032, after=68883240),
        Change(where="model", what="name", before="one", after="two"),
    ]
    lines = [line.split("  ") for line in render(change_sections(changes), Format.TABLE).splitlines()]
    shown = [[cell.strip() for cell in line if cell.strip()] for line in lines[2:]]
    assert shown == [
        ["l4", "memory_bytes", "780 MiB", "absent"],
        ["l4", "latency_s", "21.6 ms", "34.0 ms", "+57.8 %"],
        ["l4", "throughput_per_s", "1,483", "940", "-36.6 %"],
        ["model", "params", "25.6 M", "68.9 M", "+170 %"],
        ["model", "name", "one", "two"],
    ]
