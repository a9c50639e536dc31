"""Every row of the operator catalogue is complete, and what it refers to exists."""

from collections.abc import Callable

import pytest

from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.ops.catalogue import (
    BY_FILTER,
    BY_SHAPE,
    UNCOUNTED,
    FusedRole,
    OperatorClass,
    OperatorRow,
    is_counted,
    operator_rows,
    recorded_name,
)
from capplan.core.ops.flops import MAC_FORMULAS, SHAPE_FORMULAS
from capplan.core.ops.rows import ROWS
from tests.core.small_recordings import kernel, operand
from tests.seen import at_least

NOTES = {"stored input", "reads a value", "sized by values", "sized by masks"}
PRODUCTS = {OperatorClass.CONVOLUTION, OperatorClass.MATMUL, OperatorClass.ATTENTION, OperatorClass.RNN}


def breaking(law: Callable[[OperatorRow], bool]) -> list[str]:
    """Return the operators whose rows break a law."""
    return [row.name for row in at_least(500, operator_rows().values()) if not law(row)]


def test_no_operator_stands_twice() -> None:
    _, *lines = ROWS.strip().splitlines()
    named = [name for line in lines for name in line.rpartition("|")[2].split()]
    assert len(operator_rows()) == len(at_least(500, named))


def test_every_row_refers_to_what_exists() -> None:
    assert breaking(lambda row: row.efficiency in {*ALL_CLASSES, BY_FILTER, BY_SHAPE}) == []
    assert breaking(lambda row: row.products in {None, UNCOUNTED, *SHAPE_FORMULAS, *MAC_FORMULAS}) == []
    assert breaking(lambda row: row.notes <= NOTES) == []
    assert breaking(lambda row: row.instructions >= 1) == []


def test_an_operator_of_products_has_a_formula_or_is_reported_as_uncounted() -> None:
    assert breaking(lambda row: row.products is not None or row.operator_class not in PRODUCTS) == []
    assert breaking(lambda row: row.products in (None, UNCOUNTED) or row.operator_class in PRODUCTS) == []


def test_transforms_and_decompositions_are_reported_as_uncounted() -> None:
    """What they compute grows faster than what they move, and is no multiply-accumulate."""
    assert breaking(lambda row: row.operator_class is not OperatorClass.FFT or row.products == UNCOUNTED) == []
    assert {operator_rows()[name].products for name in ("linalg_qr", "_linalg_svd", "cholesky")} == {UNCOUNTED}


def test_operators_of_products_are_never_fused() -> None:
    assert breaking(lambda row: row.operator_class not in PRODUCTS or row.fused_role is None) == []


def test_every_formula_serves_an_operator() -> None:
    at_least(10, (*SHAPE_FORMULAS, *MAC_FORMULAS))
    used = {row.products for row in operator_rows().values()}
    assert {*SHAPE_FORMULAS, *MAC_FORMULAS} <= used


def test_a_product_without_a_formula_is_reported_as_uncounted() -> None:
    x = operand(4, 8)
    assert not is_counted(kernel("aten._conv_depthwise2d", [x, x], [x]))
    assert not is_counted(kernel("mine.attention", [x], [x]))
    assert is_counted(kernel("aten.relu", [x], [x]))


# Elementwise by torch's own tag, but written by torch as calls of other operators, which the recorder sees.
WRITTEN_AS_OTHERS = {"__ixor__", "__ilshift__", "_conj_physical", "clip", "float_power", "positive", "rrelu"}


def test_every_operator_that_torch_tags_as_pointwise_is_known_and_holds_no_product() -> None:
    torch = pytest.importorskip("torch")
    known = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    tagged = set()
    for name in {name.removeprefix("aten::").partition(".")[0] for name in known}:
        packet = getattr(torch.ops.aten, name)
        if any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads()):
            tagged.add(name if name.endswith("__") else name.removesuffix("_"))
    assert len(tagged) > 150
    assert tagged - operator_rows().keys() <= WRITTEN_AS_OTHERS
    assert {name for name in tagged & operator_rows().keys() if operator_rows()[name].products} == set()


def test_profilers_report_attention_and_recurrent_layers_under_torchs_names() -> None:
    assert recorded_name("scaled_dot_product_attention") == "attention"
    assert recorded_name("lstm") == "rnn"
    assert recorded_name("relu") is None


def test_roles_of_fused_operators_follow_their_class() -> None:
    by_class = {OperatorClass.NORM: FusedRole.NORM, OperatorClass.SOFTMAX: FusedRole.SOFTMAX}
    assert breaking(lambda row: row.fused_role in {None, by_class.get(row.operator_class, row.fused_role)}) == []
