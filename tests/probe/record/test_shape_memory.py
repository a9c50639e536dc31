"""What an operator makes of inputs that look alike is derived once, and is what torch makes on the meta device."""

from typing import Any

import pytest
import torch
from torch import Tensor

from capplan.probe.record.shape_memory import ShapeMemory
from capplan.probe.record.types import describe_operator

aten = torch.ops.aten


def images(dtype: torch.dtype = torch.float32, channels: int = 8) -> Tensor:
    return torch.empty(2, channels, 6, 6, dtype=dtype, device="meta").to(memory_format=torch.channels_last)


def look(out: Any) -> list[tuple[torch.Size, tuple[int, ...], torch.dtype]]:
    return [(each.shape, each.stride(), each.dtype) for each in ((out,) if isinstance(out, Tensor) else out)]


CALLS = [
    (aten.add.Tensor, (images(), images(torch.float16)), {}),
    (aten.add.Tensor, (images(), torch.empty(6, device="meta")), {}),
    (aten.mul.Tensor, (images(torch.int32), 2.0), {}),
    (aten.mul.Tensor, (images(torch.int32), 2), {}),
    (aten._to_copy.default, (images(),), {"dtype": torch.bfloat16}),
    (aten.native_group_norm.default, (images(), None, None, 2, 8, 36, 4, 1e-5), {}),
    (aten.convolution.default, (images(), torch.empty(4, 8, 3, 3, device="meta"), None, [1, 1], [1, 1], [1, 1], False,
                                [0, 0], 1), {}),
    (aten.cat.default, ([images(), images(channels=3)], 1), {}),
]  # fmt: skip


@pytest.mark.parametrize(("overload", "args", "kwargs"), CALLS)
def test_every_call_makes_what_torch_makes(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    memory, operator = ShapeMemory(), describe_operator(overload, preludes={})
    for other, others_args, others_kwargs in CALLS:  # calls of other operators and dtypes are not mixed up with it
        memory.run(describe_operator(other, preludes={}), others_args, others_kwargs)
    again = memory.run(operator, args, kwargs)
    assert look(again) == look(overload(*args, **kwargs))


def test_tensors_made_again_are_new_ones() -> None:
    memory, operator = ShapeMemory(), describe_operator(aten.relu.default, preludes={})
    given = images()
    made = [memory.run(operator, (given,), {}) for _ in range(3)]
    assert len({each.untyped_storage()._cdata for each in (given, *made)}) == 4


def test_an_output_that_is_its_input_stays_so() -> None:
    # dropout that is off returns its input: its second call must not give another tensor for it
    memory, operator = ShapeMemory(), describe_operator(aten.native_dropout.default, preludes={})
    first, second = images(), images()
    outputs = [memory.run(operator, (given, 0.5, False), {})[0] for given in (first, second)]
    directly = [aten.native_dropout.default(given, 0.5, False)[0] for given in (first, second)]
    shared = [out.untyped_storage()._cdata == given.untyped_storage()._cdata
              for out, given in zip((*outputs, *directly), (first, second) * 2, strict=True)]  # fmt: skip
    assert shared[:2] == shared[2:]
