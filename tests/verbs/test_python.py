"""Python's verbs are found by tab, readable at run time, and their answers name, show and save themselves."""

import inspect
import json
import re

import pytest

import capplan
import capplan.llm
from capplan.core.plan.types import Criterion
from capplan.errors import UsageError
from capplan.verbs.statement.registry import PYTHON_NAMES, llm_names
from tests.core.memory.test_memory import MIB, chain


@pytest.mark.parametrize("module", [capplan, capplan.llm])
def test_dir_shows_every_verb_so_that_tab_completes_it(module):
    asked = PYTHON_NAMES if module is capplan else llm_names()
    assert len(asked) > 12
    assert set(asked) <= set(dir(module))
    assert all(callable(getattr(module, name)) for name in asked)


def test_a_signature_is_readable_and_names_modules():
    shown = str(inspect.signature(capplan.plan))
    assert shown.startswith("(model: str | nn.Module | Trace, *, ")
    assert "batches: Sequence[int] | str = 'auto'" in shown
    assert "framework: Framework | str = 'eager'" in shown
    assert not re.search(r"msgspec|Annotated|<|object at", shown)


def test_limits_are_named_without_their_unit_and_given_once():
    trace = chain(10 * MIB, 7 * MIB)
    slow = capplan.plan(trace, batches=4, gpus="l4", max_latency="1us")
    assert slow.limits.max_latency_s == 1e-6
    assert capplan.plan(trace, batches=4, gpus="l4", max_latency_s=1e-6).limits == slow.limits
    with pytest.raises(TypeError, match="multiple values for argument 'max_latency_s'"):
        capplan.plan(trace, batches=4, max_latency="1us", max_latency_s=1)


@pytest.mark.zoo
def test_answers_are_saved_by_extension_and_read_again(tmp_path):
    trace = chain(10 * MIB, 7 * MIB)
    plan = capplan.plan(trace, batches=4, gpus=["l4", "t4"])
    for name in ("a.json", "a.csv", "a.md", "a.txt"):
        plan.save(tmp_path / name)
    assert json.loads((tmp_path / "a.json").read_text())["fits"]
    assert (tmp_path / "a.csv").read_text().count("\n") == 1 + len(plan.fits)
    assert (tmp_path / "a.txt").read_text() == str(plan)
    assert len(capplan.diff(tmp_path / "a.json", tmp_path / "a.json")) == 0
    (outcome,) = capplan.check(tmp_path / "a.json", gpus="l4", batch=4, max_latency="1s")
    assert outcome.is_kept
    with pytest.raises(UsageError, match=r"no format 'doc'"):
        plan.save(tmp_path / "a.doc")
    traced = capplan.trace("torchvision:alexnet")
    traced.save(tmp_path / "alexnet.trace.json.gz")
    assert capplan.load_trace(tmp_path / "alexnet.trace.json.gz") == traced


def test_a_plan_names_what_to_take():
    plan = capplan.plan(chain(10 * MIB, 7 * MIB), batches=4, gpus=["l4", "t4", "rtx-4090"])
    found = {choice.criterion: choice.fit for choice in plan.recommended}
    assert (plan.cheapest, plan.fastest, plan.smallest) == tuple(found.get(criterion) for criterion in Criterion)
    assert plan.cheapest is not None
    assert all(fit.gpu.id in plan.table for fit in plan.fits)
