"""`import capplan` answers as the command line does."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import capplan
from capplan.cli.main import app
from capplan.core.latency.calibration import HostCosts
from capplan.errors import TraceError, UnknownNameError, UsageError
from capplan.shapes.analysis import ANALYSIS
from capplan.shapes.codec import to_plain
from capplan.shapes.estimate import estimate_document
from capplan.shapes.memory import MEMORY_ANSWER
from capplan.shapes.plan import plan_document
from capplan.specs.calibration import dump_calibration, load_calibration
from tests.wordings import in_python_words

NET, INPUT = "examples/net.py:Net", "x=3x32x32"


class Square(torch.nn.Module):
    """Its Gram matrix has batch × batch elements: no linear function of the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x.T


def shown(*words: object) -> dict[str, object]:
    """Return the JSON document that a command prints, in the words of Python."""
    result = CliRunner().invoke(app, [*map(str, words), "--input", INPUT, "--format", "json"])
    assert result.exit_code == 0, result.stderr
    document: dict[str, object] = in_python_words(result.stdout, str(words[0]))
    return document


def as_json(document: object) -> object:
    return json.loads(json.dumps(to_plain(document)))


def test_a_plan_is_that_of_the_command_line() -> None:
    made = capplan.plan(NET, inputs=[INPUT], batches="1,32", gpus=["l4", "t4"], max_latency_s=0.05)
    words = ("plan", NET, "--batch", "1,32", "--gpu", "l4", "--gpu", "t4", "--max-latency", "50ms")
    assert as_json(plan_document(made)) == shown(*words)


def test_filters_and_prices_are_those_of_the_command_line() -> None:
    made = capplan.plan(NET, inputs=[INPUT], batches=[8], where=["bf16 >= 100 TFLOP/s"], priced=True, samples=1000)
    words = ("plan", NET, "--batch", "8", "--where", "bf16 >= 100 TFLOP/s", "--priced", "--samples", "1000")
    assert as_json(plan_document(made)) == shown(*words)


def test_counts_are_those_of_the_command_line() -> None:
    made = capplan.analyze(NET, inputs=[INPUT], batch=4, precision="amp-fp16")
    assert as_json(ANALYSIS.document(made)) == shown("analyze", NET, "--batch", 4, "--precision", "amp-fp16")


def test_memory_is_that_of_the_command_line() -> None:
    made = capplan.memory(NET, inputs=[INPUT], batch=4, gpus=["l4"], advice=True)
    assert as_json(MEMORY_ANSWER.document(made)) == shown("memory", NET, "--batch", 4, "--gpu", "l4", "--advice")


def test_estimates_are_those_of_the_command_line() -> None:
    made = capplan.estimate(NET, inputs=[INPUT], batches=[1, 8], gpus=["l4"], framework="compile")
    document = estimate_document(made, top=20)
    words = ("estimate", NET, "--batch", "1,8", "--gpu", "l4", "--framework", "compile")
    assert as_json(document) == shown(*words)


def test_a_module_is_planned_without_being_traced_first() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(8, 8))
    made = capplan.plan(net, inputs=["8"], batches=[4], gpus=["l4"], precision="fp32")
    assert [(fit.gpu.id, fit.batch) for fit in made.fits] == [("l4", 4)]
    traced = capplan.plan(capplan.trace(net, inputs=["8"]), batches=[4], gpus=["l4"], precision="fp32")
    assert traced.fits == made.fits


def test_a_module_that_does_not_scale_is_traced_at_every_batch() -> None:
    made = capplan.plan(Square(), inputs=["x=8"], batches=[2, 64], gpus=["l4"])
    assert sorted(fit.batch for fit in made.fits) == [2, 64]
    with pytest.raises(UsageError, match="list the batches"):
        capplan.plan(Square(), inputs=["x=8"], batches="max", gpus=["l4"])


def test_own_prices_beside_own_specs_count(tmp_path: Path) -> None:
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "own.yaml").write_text(
        "provider: own\ncurrency: USD\ndate: 2026-11-01\ndate_is: stated\n"
        "source: {kind: secondary, title: offer, publisher: own, url: https://example.org, retrieved: 2026-11-01}\n"
        "hourly:\n  - {gpu: l4, instance: one, gpus: 1, pricing: on-demand, region: here, per_hour: 0.001}\n"
    )
    for gpus in ({"gpus": ["l4"], "specs": [tmp_path]}, {"gpus": capplan.load_gpus(overlays=[tmp_path])}):
        made = capplan.plan(NET, inputs=[INPUT], batches=[1], **gpus)
        rents = {fit.gpu.id: fit.rent for fit in made.fits}
        assert rents["l4"] is not None
        assert rents["l4"].usd_per_hour == 0.001


def test_strict_refuses_as_on_the_command_line() -> None:
    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.conv_tbc(x[None], x.new_ones(1, 8, 8), x.new_ones(8))

    for verb in (capplan.plan, capplan.memory, capplan.analyze):
        with pytest.raises(TraceError, match="conv_tbc"):
            verb(Odd(), inputs=["x=8"], strict=True)


def test_a_word_that_is_not_known_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean fp16"):
        capplan.analyze(NET, inputs=[INPUT], precision="fp61")
    with pytest.raises(UnknownNameError, match="l4"):
        capplan.plan(NET, inputs=[INPUT], gpus=["l44"])


def test_an_option_that_nothing_takes_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"plan\(\) got an unexpected keyword argument 'btach'"):
        capplan.plan(NET, inputs=[INPUT], gpus=["l4"], btach=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gpus": 5}, "gpus: 5 is not a GPU; give a name such as 'l4', or a spec of load_gpus()."),
        ({"gpus": ["l4", 5]}, "gpus: 5 is not a GPU; give a name such as 'l4', or a spec of load_gpus()."),
        ({"inputs": 5}, "inputs: 5 is not an input; give words such as 'x=3x224x224', example tensors, or a function"),
        ({"precision": 16}, "precision: expected text, not 16."),
        ({"max_latency_s": [1, 2]}, "max_latency_s: expected a number of at least 0, not [1, 2]."),
        ({"model": 5}, "model: 5 is not a model; give a name such as 'resnet50', a file, an nn.Module"),
        ({"model": None}, "model: None is not a model; give a name such as 'resnet50', a file, an nn.Module"),
    ],
)
def test_a_value_of_another_type_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        capplan.plan(**({"model": NET, "inputs": [INPUT]} | options))
    assert str(refused.value).startswith(sentence)


def test_a_spec_alone_and_a_list_of_one_name_stand_for_a_gpu() -> None:
    spec = capplan.load_gpus()["l4"]
    alone = capplan.plan(NET, inputs=[INPUT], batches=8, gpus=spec)
    assert [(fit.gpu.id, fit.batch) for fit in alone.fits] == [("l4", 8)]
    assert capplan.memory(NET, inputs=[INPUT], gpu=["l4"]).gpus[0].gpu.id == "l4"


def test_no_gpus_at_all_is_an_error() -> None:
    with pytest.raises(UsageError, match="gpus is empty"):
        capplan.plan(NET, inputs=[INPUT], gpus=[])


def test_a_function_of_inputs_needs_the_module() -> None:
    with pytest.raises(UsageError, match="need the module itself"):
        capplan.trace(NET, inputs=lambda batch: torch.rand(batch, 3, 32, 32))


def test_a_report_names_the_models(tmp_path: Path) -> None:
    made = capplan.make_report(NET, inputs=[INPUT], batches=[8], gpus=["l4", "t4"], title="What to buy")
    assert made.title == "What to buy"
    assert {option.gpu for option in made.models[0].options} <= {"l4", "t4"}


def test_a_plan_waits_for_the_host_of_a_calibration_of_ones_own(tmp_path: Path) -> None:
    """A host that takes 10 ms for a linear layer decides the step; the command line takes the same file."""
    host = HostCosts(cpu="slow", torch="2.11", call_s=0.0, launch_s=0.0, operators_s={"linear": 0.01})
    path = tmp_path / "slow.yaml"
    path.write_text(dump_calibration(replace(load_calibration(), host=host)))
    asked = {"inputs": ["8"], "batches": [1], "gpus": ["l4"]}
    shipped = capplan.plan(torch.nn.Linear(8, 8), **asked).fits[0].latency.latency_s.expected
    slow = capplan.plan(torch.nn.Linear(8, 8), **asked, calibration=path).fits[0].latency.latency_s.expected
    assert shipped < 0.001
    assert slow == pytest.approx(0.01, rel=0.01)
    words = ["plan", NET, "--input", INPUT, "--batch", "1", "--gpu", "l4", "--calibration", str(path), "--json"]
    found = json.loads(CliRunner().invoke(app, words).stdout)
    assert found["fits"][0]["latency_s"]["expected"] > 0.01


def test_a_share_of_candidates_is_asked_for_in_python() -> None:
    class Positive(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[torch.where(x.flatten() > 0)[0] % len(x)]

    trace = capplan.trace(Positive(), inputs=["8"], selected_share=0.5)
    (assumed,) = [each for each in trace.recordings[0].assumed_values if each.what == "aten.nonzero"]
    assert assumed.share == 0.5
