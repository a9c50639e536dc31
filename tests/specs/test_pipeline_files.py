"""Files of pipelines: what is read, and what is refused with its key."""

from pathlib import Path

import pytest

from capplan.core.pipelines.types import Offload, PartKind
from capplan.core.workload import Framework, Precision
from capplan.errors import CapplanError
from capplan.specs.load import with_stream
from capplan.specs.pipeline_file import known_file, known_names, read_pipeline

WHOLE = """
name: captions
item: clip
item_seconds: seconds
precision: bf16
offload: model
parameters: {seconds: 30, tokens: 100}
derived: {windows: ceil(seconds / 30)}
parts:
  encoder: {model: "net.py:Encoder", inputs: ["x={seconds * 100}x80"], times: windows, kind: text-encoder}
  decoder:
    model: "net.py:Decoder"
    arguments: {width: 64, names: [a, b]}
    times: windows * tokens
    samples: 2
    precision: fp16
    framework: compile
    weights: fp8
    quantises: true
"""


def read(folder: Path, text: str) -> object:
    path = folder / "test.pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return read_pipeline(path)


def test_everything_that_a_file_states_is_read(tmp_path: Path) -> None:
    path = tmp_path / "captions.pipeline.yaml"
    path.write_text(WHOLE, encoding="utf-8")
    pipeline = read_pipeline(path).with_settings({"seconds": 90})
    encoder, decoder = pipeline.parts
    assert (pipeline.item, pipeline.precision, pipeline.offload) == ("clip", Precision.BF16, Offload.MODEL)
    assert pipeline.seconds_of_item() == 90
    assert pipeline.filled(encoder).inputs == ("x=9000x80",)
    assert pipeline.runs(encoder, 4).times == 3  # ceil(90 / 30)
    assert (pipeline.runs(decoder, 4).times, pipeline.runs(decoder, 4).batch) == (300, 8)
    assert (encoder.kind, decoder.kind) == (PartKind.TEXT_ENCODER, PartKind.OTHER)
    assert (decoder.precision, decoder.framework, decoder.weights) == (Precision.FP16, Framework.COMPILE, "fp8")
    assert decoder.arguments == {"width": 64, "names": ["a", "b"]}
    assert decoder.quantises


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: {}", "parts: must be 1 to 32 parts"),
        ("parts: {a: {times: 2}}", "parts.a.model: is missing"),
        ("parts: {a: {model: resnet50, time: 2}}", "parts.a.time: unknown key; did you mean times"),
        ("parts: {a: {model: resnet50, times: [2]}}", "parts.a.times: must be a number or an expression"),
        ("parts: {a: {model: resnet50, times: 'steps'}}", "'steps', which is no parameter"),
        ("parts: {a: {model: resnet50, samples: 0.5}}", "0.5 samples a run at batch 1"),
        (
            "item_seconds: -1\nparts: {a: {model: resnet50}}",
            "item_seconds is -1; an item plays for more than 0",
        ),
        ("parts: {a: {model: resnet50, kind: denoise}}", "parts.a.kind: 'denoise' is not known"),
        ("parts: {a: {model: resnet50, weights_of: b}}", "parts.a.weights_of: 'b' is no part before it"),
        ("parameters: {batch: 2}\nparts: {a: {model: resnet50}}", "parameters.batch: is the batch's own"),
        ("parameters: {steps: many}\nparts: {a: {model: resnet50}}", "parameters.steps: must be a number"),
        (
            "offload: disk\nparts: {a: {model: resnet50}}",
            "offload: 'disk' is not known; use none, model, streamed, sequential",
        ),
    ],
)
def test_what_a_file_gets_wrong_is_said_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CapplanError, match=message.replace("[", "\\[").replace("(", "\\(")):
        read(tmp_path, text)


def test_those_that_come_with_capplan_are_read() -> None:
    assert {"whisper-large-v3", "clip-vit-b-32", "rag", "detect-then-recognise"} < set(known_names())
    for name in known_names():
        assert read_pipeline(known_file(name)).name == name
    with pytest.raises(CapplanError, match="did you mean whisper-small"):
        known_file("whisper-smal")


@pytest.mark.parametrize(
    ("sentence", "service"),
    [
        ("3 per second, p95 under 8 s", {"peak": "3/s", "latency": "8 s", "percentile": 95.0}),
        ("90 per minute under 500 ms", {"peak": "1.5/s", "latency": "500 ms"}),
        ("7200/h, p99.5 within 1 min", {"peak": "2/s", "latency": "1 min", "percentile": 99.5}),
    ],
)
def test_a_stream_in_one_sentence_is_a_service(sentence: str, service: dict[str, object]) -> None:
    assert with_stream({"images": sentence}) == {"service": service}
    assert with_stream({"videos": sentence, "service": {"spares": 2}})["service"] == {**service, "spares": 2}


def test_a_sentence_that_says_something_else_is_left_to_the_reader() -> None:
    assert with_stream({"images": "many"}) == {"images": "many"}


@pytest.mark.parametrize("name", ["1" * 5000, "hf:" + "1" * 5000])
def test_a_model_whose_name_no_file_can_have_is_kept_as_a_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "long.pipeline.yaml"
    path.write_text(f'name: x\nparts: {{encoder: {{model: "{name}"}}}}\n', encoding="utf-8")
    assert read_pipeline(path).parts[0].model == name
