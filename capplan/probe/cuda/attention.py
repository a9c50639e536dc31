"""Attention as CUDA runs it: fused attention as one operator, and the fast paths of PyTorch's layers step by step."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from capplan.core.trace.types import Attribute
from capplan.probe.record.recorder import Recorder, lacks_data


def attend(  # noqa: PLR0917  # torch's signature
    recorder: Recorder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Replace `scaled_dot_product_attention`."""
    if query.is_nested:
        return _attend_jagged(recorder, query, key, value, dropout_p, is_causal, scale)
    _check(query, key, value)
    attributes = _attributes(query, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value)):
        return _Attention.apply(recorder, attributes, query, key, value, attn_mask)  # type: ignore[no-any-return, no-untyped-call]  # torch leaves apply untyped
    inputs = [query, key, value] + ([attn_mask] if attn_mask is not None else [])
    out, _ = _outputs(recorder, (query, key, value), attn_mask, attributes)
    recorder.note("capplan.attention", inputs, [out], attributes)
    return out


def _attend_jagged(  # noqa: PLR0917  # torch's arguments
    recorder: Recorder, query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: float | None
) -> Tensor:
    """Attend within each sequence of jagged nested tensors [batch, heads, length of the sequence, dim].

    Neighbours of one length are one kernel here. PyTorch runs one kernel for all of them, whose products are the same.
    """
    rows = [nested.transpose(1, 2).values() for nested in (query, key, value)]  # [sum of the lengths, heads, dim]
    pairs = list(zip(_lengths(recorder, query), _lengths(recorder, key), strict=True))
    runs = [(*lengths, len(list(run))) for lengths, run in itertools.groupby(pairs)]
    if len(runs) > 1:
        recorder.known.note(
            f"attention of sequences of {len(runs)} lengths is counted as so many kernels; CUDA runs one"
        )
    attended, starts = [], [0, 0]
    for query_length, key_length, count in runs:
        lengths = (query_length, key_length, key_length)
        starts_of = (starts[0], starts[1], starts[1])
        query_part, key_part, value_part = (
            part[start : start + count * length].unflatten(0, (count, length)).transpose(1, 2)
            for part, start, length in zip(rows, starts_of, lengths, strict=True)
        )
        out = attend(recorder, query_part, key_part, value_part, None, dropout_p, is_causal, scale)
        attended.append(out.transpose(1, 2).flatten(0, 1))
        starts = [starts[0] + count * query_length, starts[1] + count * key_length]
    joined = attended[0] if len(attended) == 1 else torch.cat(attended)
    made: Tensor = torch.nested.nested_tensor_from_jagged(joined, query.offsets()).transpose(1, 2)
    return made


def _lengths(recorder: Recorder, nested: Any) -> list[int]:
    """Return the lengths of a nested tensor's sequences; where they depend on data, equal ones."""
    offsets: Tensor = nested.offsets()
    if recorder.lacks_value(offsets):
        recorder.known.count_assumed("sequences of a nested tensor taken as equally long")
        count, total = offsets.numel() - 1, nested.transpose(1, 2).values().shape[0]
        return [total // count + (index < total % count) for index in range(count)]
    ends: list[int] = getattr(offsets, "_known_value", offsets).tolist()
    return [end - start for start, end in itertools.pairwise(ends)]


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"scaled_dot_product_attention: shapes of query {tuple(query.shape)}, key {tuple(key.shape)} and value "
            f"{tuple(value.shape)} do not match"
        )
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"scaled_dot_product_attention: query, key and value have dtypes {query.dtype}, {key.dtype}, {value.dtype}"
        )


def _attributes(  # noqa: PLR0917  # torch's arguments
    query: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, scale: float | None, gqa: bool
) -> tuple[tuple[str, Attribute], ...]:
    return (
        ("dropout_p", float(dropout_p)),
        ("enable_gqa", gqa),
        ("has_mask", mask is not None),
        ("is_causal", is_causal),
        ("rank", query.dim()),
        *((("scale", float(scale)),) if scale is not None and math.isfinite(scale) else ()),
    )


def _compute(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, attributes: tuple[tuple[str, Attribute], ...]
) -> Tensor:
    named: dict[str, Any] = {name: given for name, given in attributes if name in _PASSED_ON}
    made: Tensor = torch._C._nn.scaled_dot_product_attention(query, key, value, mask, **named)
    return made


_PASSED_ON = ("dropout_p", "enable_gqa", "is_causal", "scale")


def _outputs(
    recorder: Recorder,
    tensors: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    attributes: tuple[tuple[str, Attribute], ...],
) -> tuple[Tensor, Tensor]:
    """Make the output as the fused kernels lay it out, and room for its log-sum-exp, which nothing reads."""
    query, key, value = tensors
    with recorder.paused():
        if query.dim() == 4 and query.shape[-1] == value.shape[-1] and follows_query(query.dtype):
            out = torch.empty_like(query.transpose(1, 2)).transpose(1, 2)
        elif query.dim() == 4:
            batch, heads, length, _ = query.shape
            out = query.new_empty((batch, length, heads, value.shape[-1])).transpose(1, 2)
        else:
            batch_dims = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])  # type: ignore[no-untyped-call]  # torch leaves it untyped
            out = query.new_empty((*batch_dims, query.shape[-2], value.shape[-1]))
        statistics = query.new_empty(query.shape[:-1], dtype=torch.float32)
        if not lacks_data(query):
            with torch.no_grad():
                out.copy_(_compute(query, key, value, mask, attributes))
    return out, statistics


def follows_query(dtype: torch.dtype) -> bool:
    """Return True if the output lies in memory as the query does.

    FlashAttention and cuDNN, which serve 16-bit types, make it like the query (flash_api.cpp: `empty_like(q)`); the
    memory-efficient kernel, which serves the others, as [batch, length, heads, dim].
    """
    return dtype in (torch.float16, torch.bfloat16)


class _Attention(torch.autograd.Function):
    """Attention that saves what the fused kernels save: its inputs, its output and the log-sum-exp of each row."""

    @staticmethod
    def forward(ctx: Any, recorder: Recorder, attributes: Any, *tensors: Tensor | None) -> Tensor:
        query, key, value, mask = tensors
        assert query is not None
        assert key is not None
        assert value is not None
        out, statistics = _outputs(recorder, (query, key, value), mask, attributes)
        inputs = [tensor for tensor in tensors if tensor is not None]
        recorder.note("capplan.attention", inputs, [out, statistics], attributes)
        ctx.save_for_backward(query, key, value, mask, out, statistics)
        ctx.recorder, ctx.attributes = recorder, attributes
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        query, key, value, mask, out, statistics = ctx.saved_tensors
        recorder: Recorder = ctx.recorder
        with recorder.paused():
            if lacks_data(query):
                made = [torch.empty_like(tensor) for tensor in (query, key, value)]
            else:
                with torch.enable_grad():
                    query, key, value = (tensor.detach().requires_grad_() for tensor in (query, key, value))
                    out_again = _compute(query, key, value, mask, ctx.attributes)
                made = list(torch.autograd.grad(out_again, (query, key, value), grads[0]))
        inputs = [grads[0], query, key, value, *([mask] if mask is not None else []), out, statistics]
        recorder.note("capplan.attention_backward", inputs, made, ctx.attributes)
        needs_mask_grad = mask is not None and ctx.needs_input_grad[5]
        return (None, None, *made, torch.zeros_like(mask) if needs_mask_grad else None)


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
    """Replace `torch._native_multi_head_attention` with one tensor as query, key and value."""
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
    if mask is not None:
        scores = scores.masked_fill(mask[:, None, None, :] if mask.dim() == 2 else mask, -torch.inf)
    weights = torch.softmax(scores, -1)
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
    """Replace `torch._transformer_encoder_layer_fwd`."""

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


def mask_is_left_aligned(recorder: Recorder, x: Tensor, mask: Tensor) -> bool:
    """Replace `torch._nested_tensor_from_mask_left_aligned`; a mask of unknown values is taken to be so."""
    if not x.is_meta:
        return False  # on the CPU's values the layers get the mask itself
    if recorder.lacks_value(mask):
        recorder.known.count_assumed("padding taken to be at the end")
        return True
    value: Tensor = getattr(mask, "_known_value", mask)
    return bool((value.long().diff(dim=1) <= 0).all())


def packed_rows(recorder: Recorder, x: Tensor, *_: Any, **__: Any) -> Tensor:
    """Replace `torch._nested_tensor_from_mask`, which copies what is not padding; here nothing is padding."""
    recorder.known.note("nn.TransformerEncoder leaves padding out on CUDA; counted as if nothing were padded")
    return x.clone()
