"""Answers in a notebook: short in a prompt, HTML in a cell, a frame for pandas; and the words people write there."""

import pandas
import pytest
import torch

import capplan
from capplan.core.workload import Precision


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())


IMAGE = torch.zeros(1, 3, 32, 32)


@pytest.mark.parametrize("verb", [capplan.plan, capplan.estimate, capplan.memory, capplan.analyze])
def test_an_answer_is_short_in_a_prompt_and_whole_in_a_cell(verb: object) -> None:
    assert callable(verb)
    gpus = {} if verb is capplan.analyze else {"gpu": "l4"}
    answer = verb(net(), inputs=IMAGE, batch=8, **gpus)
    assert len(repr(answer)) < 120
    assert "<pre" in answer._repr_html_()
    assert len(str(answer).splitlines()) > 3
    assert isinstance(answer.to_frame(), pandas.DataFrame)
    assert len(answer.to_frame())


def test_a_tensor_stands_for_its_shape_and_dtype() -> None:
    # a tensor's first dimension is the batch: one sample is 3x32x32
    by_tensor = capplan.plan(net(), inputs=[IMAGE], batches=8, gpus="l4")
    by_words = capplan.plan(net(), inputs=["3x32x32"], batches=[8], gpus=["l4"])
    assert by_tensor.model.input.size == "3x32x32"
    assert by_tensor.fits[0].latency == by_words.fits[0].latency


def test_a_dtype_of_torch_is_a_precision() -> None:
    plan = capplan.plan(net(), inputs=IMAGE, batch=8, gpu="l4", precision=torch.float16)
    assert plan.workload.precision is Precision.FP16


def test_an_unknown_argument_is_one_sentence_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'precison'; did you mean precision"):
        capplan.plan(net(), precison="fp16")  # type: ignore[call-arg]  # misspelt on purpose
