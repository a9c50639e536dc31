"""The fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer, step by step as CUDA runs them.

`native_multi_head_attention_cuda` (aten/src/ATen/native/transformers/cuda/attention.cu) projects with one linear
layer, calls scaled dot-product attention where neither weights are asked for nor a mask is given, and projects back;
else it computes scores, a masked softmax and the weighted sum with two batched products. `masked_softmax` (softmax.cu)
converts the floating-point masks that Python's canonical form makes to booleans. `transformer_encoder_layer_forward`
(transformer.cpp) adds norms, residuals and the two linear layers, the first with its activation fused.
"""

from typing import Any

import torch
from torch import Tensor

from capplan.probe.cuda.attention import attend
from capplan.probe.record.recorder import Recorder


def multi_head_attention(  # noqa: PLR0917  # torch's signature
    recorder: Recorder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Stand in for `torch._native_multi_head_attention` with one tensor as query, key and value."""
    del key, value, mask_type
    batch, length, _ = query.shape
    dim = embed_dim // num_head
    projected = torch._C._nn.linear(query, qkv_weight, qkv_bias)
    if mask is None and not need_weights:
        q, k, v = (part.view(batch, length, num_head, dim).transpose(1, 2) for part in projected.chunk(3, dim=-1))
        attended = attend(recorder, q, k, v)
        merged = attended.transpose(1, 2).reshape(batch, length, embed_dim)
        return torch._C._nn.linear(merged, proj_weight, proj_bias), None
    query_heads, key_heads, value_heads = (
        part.reshape(batch, length, num_head, dim).transpose(1, 2).reshape(batch * num_head, length, dim)
        for part in projected.chunk(3, dim=-1)
    )
    if mask is not None and mask.dtype is not torch.bool:
        mask = mask.to(torch.bool)
    scores = torch.bmm(query_heads, key_heads.transpose(1, 2)).view(batch, num_head, length, length)
    weights = torch.softmax(scores if mask is None else scores.masked_fill(_broadcast(mask), -torch.inf), -1)
    attended = torch.bmm(weights.view(batch * num_head, length, length), value_heads)
    merged = attended.view(batch, num_head, length, dim).transpose(1, 2).reshape(batch, length, embed_dim)
    out = torch._C._nn.linear(merged, proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(dim=1) if average_attn_weights else weights


def encoder_layer(  # noqa: PLR0917  # torch's signature
    recorder: Recorder,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Stand in for `torch._transformer_encoder_layer_fwd`."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.layer_norm(x, (embed_dim,), weight, bias, eps)

    attention_input = norm(src, norm_weight_1, norm_bias_1) if norm_first else src
    x, _ = multi_head_attention(
        recorder, attention_input, attention_input, attention_input, embed_dim, num_heads, qkv_weight, qkv_bias,
        proj_weight, proj_bias, mask, need_weights=False, mask_type=mask_type,
    )  # fmt: skip
    x = x.add_(src)
    if not norm_first:
        x = norm(x, norm_weight_1, norm_bias_1)
    between = norm(x, norm_weight_2, norm_bias_2) if norm_first else x
    rows = between.reshape(-1, embed_dim)
    hidden = torch._addmm_activation(ffn_bias_1, rows, ffn_weight_1.t(), use_gelu=use_gelu)
    out = torch.addmm(ffn_bias_2, hidden, ffn_weight_2.t()).view(x.shape)
    out = out.add_(x)
    return out if norm_first else norm(out, norm_weight_2, norm_bias_2)


def _broadcast(mask: Tensor) -> Tensor:
    return mask[:, None, None, :] if mask.dim() == 2 else mask


def mask_is_left_aligned(recorder: Recorder, x: Tensor, mask: Tensor) -> bool:
    """Stand in for `torch._nested_tensor_from_mask_left_aligned`; a mask of unknown values is taken to be so."""
    if not x.is_meta:
        return False  # on the CPU's values the layers get the mask itself
    if recorder.lacks_value(mask):
        recorder.assume("padding taken to be at the end")
        return True
    value: Tensor = getattr(mask, "_known_value", mask)
    return bool((value.long().diff(dim=1) <= 0).all())


def packed_rows(recorder: Recorder, x: Tensor, *_: Any, **__: Any) -> Tensor:
    """Stand in for `torch._nested_tensor_from_mask`, which copies what is not padding; here nothing is padding."""
    recorder.remark("nn.TransformerEncoder leaves padding out on CUDA; counted as if nothing were padded")
    return x.clone()
