"""Values carried along on the meta device, against the same code run with data on the CPU."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.core.trace.types import Recording
from capplan.probe.record.value_store import LARGEST_KNOWN, count_true, is_small, run_elementwise
from capplan.probe.trace.tracer import trace_module

BATCH = 3
TOKENS, WIDTH = 40, 5000
assert BATCH * TOKENS * WIDTH > LARGEST_KNOWN


class Runs(nn.Module):
    """A function as a model; notes what it returned."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def ids(batch: int) -> Tensor:
    """Token ids of which the first seven of each sample are placeholders."""
    row = torch.arange(TOKENS).where(torch.arange(TOKENS) >= 7, torch.tensor(99))
    return row.expand(batch, TOKENS).contiguous()


def record(function: Callable[..., Any], *args: Callable[[int], Tensor]) -> Recording:
    def feeds(batch: int, *, device: Any) -> SimpleNamespace:
        made = tuple(make(batch).to(device) for make in args)
        return SimpleNamespace(args=made, kwargs={}, names=())

    return trace_module(Runs(function), feeds, name="test", exact_batch=BATCH).recordings[0]


def last_shape(recording: Recording) -> list[int]:
    kernel = recording.kernels[recording.ops[-1].kernel]
    return [size.at(BATCH) for size in kernel.outputs[0].shape]


def embeddings(batch: int) -> Tensor:
    return torch.rand(batch, TOKENS, WIDTH)


def by_expanded_mask(tokens: Tensor, embedded: Tensor) -> Tensor:
    mask = (tokens == 99).unsqueeze(-1).expand_as(embedded)
    return embedded[mask].neg()


def by_inverted_mask(tokens: Tensor, embedded: Tensor) -> Tensor:
    mask = ~(tokens == 99).unsqueeze(-1).expand_as(embedded)
    return embedded[mask].neg()


def by_masked_select(tokens: Tensor, embedded: Tensor) -> Tensor:
    return embedded.masked_select((tokens == 99).unsqueeze(-1).expand_as(embedded)).neg()


def by_token_mask(tokens: Tensor, embedded: Tensor) -> Tensor:
    return embedded[tokens == 99].neg()


@pytest.mark.parametrize("function", [by_expanded_mask, by_inverted_mask, by_masked_select, by_token_mask])
def test_a_known_mask_selects_what_it_selects_however_far_it_is_spread(function: Callable[..., Tensor]):
    recording = record(function, ids, embeddings)
    assert recording.assumed_values == ()
    assert last_shape(recording) == list(function(ids(BATCH), embeddings(BATCH)).shape)


def test_a_count_of_a_spread_mask_is_a_number_that_code_can_ask_for():
    def checks(tokens: Tensor, embedded: Tensor) -> Tensor:
        mask = (tokens == 99).unsqueeze(-1).expand_as(embedded)
        if int(mask.sum()) != 7 * BATCH * WIDTH:
            raise ValueError("features and tokens do not match")
        return embedded.neg()

    assert record(checks, ids, embeddings).assumed_values == ()


def test_random_inputs_are_never_zero():
    def drops_padding(images: Tensor) -> Tensor:
        is_real = (images == 0.0).sum(dim=(-1, -2)) != images.shape[-1] * images.shape[-2]
        return images[is_real].neg()

    recording = record(drops_padding, embeddings)
    assert recording.assumed_values == ()
    assert last_shape(recording) == [BATCH, TOKENS, WIDTH]


def test_what_was_computed_from_weights_or_inputs_may_be_anything():
    recording = record(lambda images: images[(images - images.mean() == 0.0).all(-1)].neg(), embeddings)
    assert [guess.what for guess in recording.assumed_values] == ["aten.index"]


def test_large_constants_are_known_until_something_is_written_to_them():
    def constant(images: Tensor) -> Tensor:
        mask = torch.ones(images.shape, dtype=torch.bool, device=images.device)
        return images[mask].neg()

    def written(images: Tensor) -> Tensor:
        mask = torch.ones(images.shape, dtype=torch.bool, device=images.device)
        mask[:, 0] = images[:, 0] > 0.5
        return images[mask].neg()

    assert record(constant, embeddings).assumed_values == ()
    assert last_shape(record(constant, embeddings)) == [BATCH * TOKENS * WIDTH]
    assert [guess.what for guess in record(written, embeddings).assumed_values] == ["aten.index"]


def test_what_is_written_to_a_mask_counts():
    def marks(tokens: Tensor, embedded: Tensor) -> Tensor:
        mask = torch.zeros(tokens.shape, dtype=torch.bool, device=tokens.device)
        mask[:, :4] = True
        return embedded[mask].neg()

    recording = record(marks, ids, embeddings)
    assert recording.assumed_values == ()
    assert last_shape(recording) == [BATCH * 4, WIDTH]


def test_lists_of_numbers_on_the_device_become_a_tensor():
    def stacks(tokens: Tensor) -> Tensor:
        counts = torch.tensor([(row == 99).sum() for row in tokens], device=tokens.device)
        return tokens.new_zeros(int(counts.sum())).neg()

    recording = record(stacks, ids)
    assert recording.assumed_values == ()
    assert last_shape(recording) == [7 * BATCH]


def test_a_scalar_on_the_host_is_filled_in_by_mask():
    def fills(tokens: Tensor) -> Tensor:
        return (tokens == 99).masked_fill(tokens > 20, torch.tensor(True)).nonzero().neg()

    recording = record(fills, ids)
    assert recording.assumed_values == ()
    assert last_shape(recording) == list(fills(ids(BATCH)).shape)


def test_what_a_model_asserts_of_unknown_values_is_taken_to_hold_and_told():
    def asserts(images: Tensor) -> Tensor:
        torch._check_tensor_all(images >= 0)
        return images.neg()

    assert [(guess.what, guess.count) for guess in record(asserts, embeddings).assumed_values] == [
        ("aten._is_all_true", 1)
    ]


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 3, 1), (4, 3, 2), (0, 1, 1)])
def test_repeated_elements_are_counted_and_computed_as_if_written_out(shape: tuple[int, ...]):
    mask = (torch.arange(torch.Size(shape).numel()) % 3 > 0).reshape(shape)
    spread = mask.expand(*(max(size, goal) if size == 1 else size for size, goal in zip(shape, (4, 3, 2), strict=True)))
    written_out = spread.contiguous()
    assert count_true(spread) == int(written_out.sum())
    made = run_elementwise(torch.ops.aten.bitwise_not.default, (spread,), {}, written_out)
    assert torch.equal(made, ~written_out)


def test_small_is_what_lies_in_little_memory():
    assert is_small(torch.zeros(1).expand(LARGEST_KNOWN + 1))
    assert is_small(torch.zeros(LARGEST_KNOWN))
    assert not is_small(torch.zeros(LARGEST_KNOWN + 1))


def causal_rows(embedded: Tensor) -> Tensor:
    mask = torch.full((3000, 3000), float("-inf"), device=embedded.device)  # one number, known
    for row in range(4):
        mask[row, : row + 1] = 0  # in a part of it
    return embedded + (mask[:TOKENS, :1] == 0).sum()


def test_a_part_of_one_number_that_stands_for_many_can_be_written() -> None:
    assert LARGEST_KNOWN < 3000 * 3000
    recording = record(causal_rows, embeddings)
    names = [recording.kernels[op.kernel].name for op in recording.ops]
    assert sum("fill" in name for name in names) >= 4, names
    assert last_shape(recording) == [BATCH, TOKENS, WIDTH]
