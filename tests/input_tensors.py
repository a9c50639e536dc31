"""The tensors of a call that a target makes."""

import torch

from capplan.probe.inputs.grammar import ModelInputs
from capplan.probe.inputs.tensors import named_tensors


def input_tensors(inputs: ModelInputs) -> list[torch.Tensor]:
    """List the tensors of a call in the order of its `names`."""
    return [tensor for _, tensor in named_tensors(inputs.args, inputs.kwargs)]
