"""Answers in a notebook: short in a prompt, HTML in a cell, a frame for pandas; and the words people write there."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

import capplan
from capplan.core.memory.summary import MemorySummary
from capplan.core.ops.counters import AnalyzeAnswer
from capplan.core.plan.comparison import Comparison
from capplan.core.plan.estimate import EstimateAnswer
from capplan.core.plan.types import Plan
from capplan.core.trace.types import Trace
from capplan.core.workload import Precision
from capplan.errors import UsageError
from capplan.llm.core.fleet.money import PlannedFleet
from capplan.llm.core.memory_answer import MemoryAnswer
from capplan.llm.core.serving.estimate import ServingEstimate
from capplan.report.procurement.types import Report
from capplan.specs.prices import Prices
from tests.cli.conftest import EXAMPLES


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())


IMAGE = torch.zeros(1, 3, 32, 32)


LLAMA = "llama-3.1-8b-instruct"
LOAD = EXAMPLES / "image-service.load.yaml"

# what a Python caller asks, the type that the answer must keep, and whether its CSV has rows
ASKED: dict[str, tuple[Callable[[], Any], type, bool]] = {
    "plan": (lambda: capplan.plan(net(), inputs=IMAGE, batch=8, gpu="l4"), Plan, True),
    "compare": (lambda: capplan.compare(net(), inputs=IMAGE, batch=8, gpu="l4"), Comparison, True),
    "estimate": (lambda: capplan.estimate(net(), inputs=IMAGE, batch=8, gpu="l4"), EstimateAnswer, True),
    "memory": (lambda: capplan.memory(net(), inputs=IMAGE, batch=8, gpu="l4"), MemorySummary, True),
    "analyze": (lambda: capplan.analyze(net(), inputs=IMAGE), AnalyzeAnswer, True),
    "trace": (lambda: capplan.trace(net(), inputs=IMAGE), Trace, False),
    "measure": (lambda: capplan.measure(net(), inputs=IMAGE, batch=1, device="cpu"), tuple, True),
    "prices": (capplan.prices, Prices, True),
    "make_report": (lambda: capplan.make_report("resnet50", gpu="l4", batch=8, load=LOAD), Report, False),
    "llm.plan": (lambda: capplan.llm.plan(LLAMA, rate_per_s=2, gpu="l40s", engines="vllm", tp=1), PlannedFleet, True),
    "llm.estimate": (lambda: capplan.llm.estimate(LLAMA, gpu="l40s", concurrency=[1, 16]), ServingEstimate, True),
    "llm.memory": (lambda: capplan.llm.memory(LLAMA, gpu="l40s"), MemoryAnswer, True),
    "llm.models": (capplan.llm.models, tuple, True),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_a_few_lines_in_a_prompt_and_html_in_a_cell(name: str) -> None:
    ask, kind, has_rows = ASKED[name]
    answer = ask()
    assert isinstance(answer, kind)
    assert len(repr(answer).splitlines()) <= 6
    assert all(len(text) <= 100 for text in repr(answer).splitlines())
    html = answer._repr_html_()
    assert html.startswith("<pre")
    assert len(html.splitlines()) <= 151
    assert len(str(answer).splitlines()) > 3
    if has_rows:
        assert len(answer.to_frame())
    else:
        with pytest.raises(UsageError, match="no rows"):
            answer.to_frame()


def test_an_answer_outlives_pickle_and_equals_what_has_its_figures() -> None:
    trace = capplan.trace(net(), inputs=IMAGE)
    kept = pickle.loads(pickle.dumps(trace))
    assert kept == trace
    assert repr(kept) == repr(trace)
    bare = Trace(**{field.name: getattr(trace, field.name) for field in fields(trace)})
    assert bare == trace
    assert trace == bare
    assert copy.deepcopy(trace) == trace


def test_a_replaced_answer_shows_what_it_holds() -> None:
    plan = capplan.plan(net(), inputs=IMAGE, batch=8, gpu="l4")
    renamed = replace(plan, model=replace(plan.model, name="another"))
    assert repr(renamed).startswith("another · ")
    assert repr(plan).startswith("Sequential · ")


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
