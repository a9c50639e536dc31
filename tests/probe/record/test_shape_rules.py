"""Layouts that PyTorch suggests, held against its own Python reference."""

import pytest
import torch
from torch._prims_common import suggest_memory_format

from capplan.probe.record.shape_rules import suggests_channels_last

_IMAGE = torch.empty(2, 8, 6, 5).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "tensor",
    [
        _IMAGE, _IMAGE[:, :4], _IMAGE[:, 2:3], _IMAGE[:, :, 1:4], _IMAGE[..., ::2], _IMAGE.contiguous(),
        _IMAGE.contiguous()[:, :4], torch.empty(2, 1, 6, 5), torch.empty(7, 1, 1, 1), torch.empty(2, 8, 1, 1),
        torch.empty(3, 8, 1, 1).to(memory_format=torch.channels_last), torch.empty(2, 6, 5, 8).permute(0, 3, 1, 2),
        torch.empty(2, 8, 6), torch.empty(2, 4, 3, 6, 5).to(memory_format=torch.channels_last_3d),
    ],
)  # fmt: skip
def test_slices_of_channels_last_images_are_channels_last(tensor):
    expected = suggest_memory_format(tensor) in (torch.channels_last, torch.channels_last_3d)
    assert suggests_channels_last(tensor) is expected
