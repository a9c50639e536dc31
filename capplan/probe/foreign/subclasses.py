"""Look inside tensor subclasses that wrap other tensors, as quantised weights do, to count what they store."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def stored_tensors(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """List the plain tensors that a tensor stores, with their names below its own; a plain tensor is its own.

    Args:
        tensor: a parameter or buffer; wrappers inside wrappers are opened too.

    Returns:
        Pairs such as ("", weight), or (".qdata", int8 values) and (".scale", fp32 scales).
    """
    if not is_wrapper(tensor):
        yield "", tensor
        return
    wrapper: Any = tensor
    names, _ = wrapper.__tensor_flatten__()
    for name in names:
        for inner, plain in stored_tensors(getattr(wrapper, name)):
            yield f".{name}{inner}", plain


def is_wrapper(tensor: Tensor) -> bool:
    """Return True if a tensor's class keeps its data in other tensors and says which."""
    if type(tensor) in (Tensor, nn.Parameter):
        return False
    return bool(is_traceable_wrapper_subclass(tensor))


def rewrapped(tensor: Tensor, replace: Callable[[Tensor], Tensor]) -> Tensor:
    """Make a wrapper like another one around tensors that stand in for those which it stores.

    Args:
        tensor: a wrapper, as `is_wrapper` tells.
        replace: makes the tensor that stands in for a plain one.
    """
    wrapper: Any = tensor
    names, context = wrapper.__tensor_flatten__()
    inner = {}
    for name in names:
        held = getattr(wrapper, name)
        inner[name] = rewrapped(held, replace) if is_wrapper(held) else replace(held)
    made: Tensor = type(wrapper).__tensor_unflatten__(inner, context, wrapper.size(), wrapper.stride())
    if isinstance(tensor, nn.Parameter) and not isinstance(made, nn.Parameter):
        return nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made


def as_parameter(made: Tensor, like: nn.Parameter, replace: Callable[[Tensor], Tensor]) -> nn.Parameter:
    """Make a parameter of a tensor that stands in for another one's, of its class and with its attributes.

    Quantising libraries keep scales and states as attributes of a class of their own (bitsandbytes' `Int8Params`).

    Args:
        made: the tensor that stands in.
        like: the parameter that it stands in for.
        replace: makes the tensor that stands in for one among the attributes.
    """
    if type(like) is nn.Parameter:
        return nn.Parameter(made, requires_grad=like.requires_grad)
    parameter: nn.Parameter = Tensor._make_subclass(type(like), made, like.requires_grad)
    for name, value in vars(like).items():
        if not name.startswith("_"):
            parameter.__dict__[name] = replace(value) if isinstance(value, Tensor) else value
    return parameter


def is_main(tensor: Tensor, stored: Tensor) -> bool:
    """Return True if a stored tensor holds the weights themselves, and not their scales or offsets."""
    return tensor is stored or stored.numel() == max(plain.numel() for _, plain in stored_tensors(tensor))
