"""A model is opened once: built once, its recordings traced once, its trace file read once."""

from pathlib import Path
from typing import Any

import pytest

from capplan.app import models
from capplan.app.models import QuantisedSource, may_name_trace, open_model
from capplan.app.trace_cache import TraceCache
from capplan.core.quantisation.schemes import find_scheme
from capplan.core.trace.format import dump_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import BatchChoice, Batches, Configuration, Variant
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import ModelRequest
from tests.app.conftest import builds

FULL, HALF = Configuration(), Configuration(variant=Variant.HALF)


def ask(nets: Path, name: str) -> ModelRequest:
    return ModelRequest(words=f"{nets}:{name}", inputs=("x=8",))


@pytest.mark.slow
def test_a_model_is_built_once_however_many_recordings_it_needs(nets: Path) -> None:
    model = open_model(ask(nets, "Even"))
    assert builds(nets) == 0
    both = model.trace([FULL, HALF])
    assert [each.configuration for each in both.recordings] == [FULL, HALF]
    model.trace([HALF])
    model.trace([FULL], exact_batch=4)
    assert builds(nets) == 1


def test_a_kept_trace_needs_no_build(nets: Path) -> None:
    open_model(ask(nets, "Even")).trace([FULL, HALF])
    assert open_model(ask(nets, "Even")).trace([HALF]).recordings[0].configuration == HALF
    assert builds(nets) == 1


@pytest.mark.slow
def test_recordings_are_kept_one_by_one(nets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path / "kept"))
    open_model(ask(nets, "Even")).trace([FULL, HALF])
    assert [entry.configurations for entry in TraceCache(folder=tmp_path / "kept").entries()] == [
        (str(FULL),),
        (str(HALF),),
    ]


def test_a_trace_file_is_read_once(nets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "even.trace.json"
    path.write_bytes(dump_trace(open_model(ask(nets, "Even")).trace([FULL]), compress=False))
    reads: list[str] = []

    def load(content: bytes, *, where: str) -> Trace:
        reads.append(where)
        return original(content, where=where)

    original: Any = models.load_trace
    monkeypatch.setattr(models, "load_trace", load)
    model = open_model(ModelRequest(words=str(path)))
    for _ in range(3):
        assert model.scales(FULL)
        model.trace_at(FULL, 7)
    assert reads == [str(path)]
    assert not model.can_be_traced


def test_inputs_beside_a_trace_file_are_refused(nets: Path, tmp_path: Path) -> None:
    path = tmp_path / "even.trace.json"
    path.write_bytes(dump_trace(open_model(ask(nets, "Even")).trace([FULL]), compress=False))
    with pytest.raises(UsageError, match="its arguments and inputs are fixed"):
        open_model(ModelRequest(words=str(path), seq_len=8))


@pytest.mark.slow
def test_a_model_that_does_not_scale_is_traced_at_each_listed_batch(nets: Path) -> None:
    model = open_model(ask(nets, "Square"))
    assert not model.scales(FULL)
    pieces = model.traces_for(FULL, Batches(choice=BatchChoice.LISTED, sizes=(2, 6)))
    assert [batches.sizes for _, batches in pieces] == [(2,), (6,)]
    for trace, batches in pieces:
        assert trace.recording(FULL).exact_batch == batches.sizes[0]
    assert builds(nets) == 1


def test_a_model_that_does_not_scale_needs_listed_batches(nets: Path) -> None:
    model = open_model(ask(nets, "Square"))
    with pytest.raises(UsageError, match="does not grow evenly with the batch; list the batches"):
        model.traces_for(FULL, Batches(choice=BatchChoice.MAX))


@pytest.mark.slow
def test_a_quantised_model_that_does_not_scale_is_planned_at_the_batches_of_the_model_as_it_is(nets: Path) -> None:
    plain = open_model(ask(nets, "Square"))
    quantised = open_model(QuantisedSource(source=plain, scheme=find_scheme("int8", None)))
    auto = Batches(choice=BatchChoice.AUTO)
    for model in (plain, quantised):
        assert [batches.sizes for _, batches in model.traces_for(FULL, auto)] == [(1,), (8,), (32,)]
    assert quantised.usual_batch(FULL) == 1


@pytest.mark.parametrize(
    ("words", "is_read"),
    [("net.trace.json.gz", True), ("net.json", True), ("hf:net/config.json", False), ("resnet50", False)],
)
def test_a_json_file_is_read_as_a_trace_and_a_config_of_transformers_is_not(words: str, is_read: bool) -> None:
    assert may_name_trace(words) == is_read
