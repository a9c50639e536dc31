"""Where attention's output lies: FlashAttention makes it like the query, the memory-efficient kernel does not."""

import pytest
from torch import Tensor, nn
from torch.nn import functional

from capplan.core.workload import Variant
from tests.probe.trace.test_trace import names, record


class LengthFirst(nn.Module):
    """Attention over [length, batch, heads, dim], as nn.MultiheadAttention lays its projections out."""

    def forward(self, x: Tensor) -> Tensor:  # [batch, length, heads, dim]
        query = x.transpose(0, 1).contiguous().permute(1, 2, 0, 3)
        attended = functional.scaled_dot_product_attention(query, query, query)
        return attended.permute(2, 0, 1, 3).contiguous()


@pytest.mark.parametrize(("variant", "copies"), [(Variant.HALF, 1), (Variant.FULL, 2)])
def test_a_length_first_query_is_followed_in_16_bit_alone(variant: Variant, copies: int) -> None:
    # the first copy makes the query; the second undoes the fp32 kernel's [batch, length, heads, dim]
    assert names(record(LengthFirst(), 5, 2, 8, variant=variant)).count("aten.clone") == copies


def test_a_slice_of_a_projection_gives_a_dense_output() -> None:
    # empty_like of a tensor with gaps keeps the order of its strides without the gaps: [batch, length, heads, dim]
    class Packed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:  # [batch, length, 3, heads, dim]
            query, key, value = x.permute(2, 0, 3, 1, 4).unbind(0)
            return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)

    recording = record(Packed(), 5, 3, 2, 8, variant=Variant.HALF)
    assert names(recording) == ["capplan.attention"]
    assert recording.storages[recording.ops[0].writes[0]].size_bytes.at(4) == 4 * 5 * 2 * 8 * 2
