"""All operators that are read, by name."""

from capplan.probe.onnx.graph import Node
from capplan.probe.onnx.operators import control, elementwise, products, quantised, shapes, windows
from capplan.probe.onnx.operators.call import Handler, Handlers

_ALL: Handlers = {
    **elementwise.HANDLERS,
    **shapes.HANDLERS,
    **products.HANDLERS,
    **windows.HANDLERS,
    **quantised.HANDLERS,
    **control.HANDLERS,
}


def find_handler(node: Node) -> Handler | None:
    """Return what runs a node; None for an operator that is not read."""
    return _ALL.get(node.full_operator)
