"""Names of the Hub answer as the same files on this machine do, digit for digit."""

import json
from dataclasses import replace

import pytest

from capplan.app.models import open_model
from capplan.app.pipelines.diffusers import find_pipeline, names_pipeline
from capplan.cli.main import app
from capplan.core.workload import Configuration
from capplan.llm.core.tensors import count_parameters
from capplan.llm.read.sources import find_model
from capplan.probe.inputs.grammar import ModelRequest
from tests.hub.small_repositories import REPOSITORIES, SERVED


def names_of(*kinds: str) -> list[str]:
    return [name for name, small in REPOSITORIES.items() if small.kind in kinds]


@pytest.fixture
def filled(hub, tmp_path):
    """Fill the hub and folders of this machine with the same files; returns the words of this machine by name."""
    local = {}
    for name, small in REPOSITORIES.items():
        for repository, files in {name: small.files, **small.beside}.items():
            hub.add(repository, files, library=small.library)
            for file, content in files.items():
                path = tmp_path / "local" / repository.replace("/", "+") / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        local[name] = small.local.replace("FOLDER", str(tmp_path / "local" / name.replace("/", "+")))
    return local


def test_there_are_thirty_names_of_ten_kinds():
    assert len(REPOSITORIES) == 30
    assert len({small.kind for small in REPOSITORIES.values()}) == 10


@pytest.mark.parametrize("name", names_of(*SERVED))
def test_a_served_model_of_the_hub_is_that_of_its_files(filled, name, capsys):
    asked = f"{name}{REPOSITORIES[name].asked}"
    found, here = find_model(asked), find_model(filled[name])
    assert found.exact_bytes == here.exact_bytes is not None
    assert found.stored_bytes == here.stored_bytes
    same = {"source": "", "origin": None, "hf_id": None, "adapter_rank": None}
    assert replace(found.architecture, name="") == replace(here.architecture, name="")
    assert replace(found, **same, architecture=here.architecture) == replace(here, **same)
    answers = []
    for words in (asked, filled[name]):
        beside = ["--adapters", "1", "--lora-rank", str(found.adapter_rank)] if found.adapter_rank else []
        app(["llm", "memory", words, "--gpu", "l4", "--max-len", "64", "--json", *beside], standalone_mode=False)
        answers.append(json.loads(capsys.readouterr().out))
    assert without_names(answers[0]) == without_names(answers[1])


@pytest.mark.parametrize(("verb", "rows"), [("estimate", "points"), ("simulate", "loads")])
@pytest.mark.parametrize("name", names_of("adapter"))
def test_an_adapter_of_the_hub_is_served_as_its_base_with_one_adapter(filled, name, verb, rows, capsys):
    rank = str(find_model(name).adapter_rank)
    length = ["--gpu", "l4", "--input-len", "16", "--output-len", "16", "--concurrency", "2", "--json"]
    found = []
    for words, beside in ((name, []), (filled[name], ["--adapters", "1", "--lora-rank", rank]), (filled[name], [])):
        app(["llm", verb, words, *length, *beside], standalone_mode=False)
        found.append(json.loads(capsys.readouterr().out)[rows])
    assert found[0] == found[1] != found[2]


def without_names(answer):
    """Return an answer without what says where the model was read."""
    facts = {key: value for key, value in answer["model"].items() if key not in ("name", "source", "hf_id")}
    notes = [note for note in answer["notes"] if "Hugging Face Hub" not in note]
    return {**answer, "model": facts, "notes": notes}


@pytest.mark.slow
@pytest.mark.zoo
@pytest.mark.parametrize("name", names_of("sentences", "timm", "transformers"))
def test_a_model_of_pytorch_is_that_of_its_files(filled, name):
    small = REPOSITORIES[name]
    found = open_model(ModelRequest(words=f"{name}{small.asked}")).trace([Configuration()])
    here = open_model(ModelRequest(words=filled[name], arg=small.arg, input_size=small.size)).trace([Configuration()])
    assert found.recordings == here.recordings
    assert any("at revision" in note for note in found.provenance.notes)


@pytest.mark.zoo
@pytest.mark.parametrize("name", names_of("pipeline"))
def test_a_pipeline_is_that_of_its_files(filled, name):
    assert names_pipeline(name)
    found, here = find_pipeline(name), find_pipeline(filled[name])
    there, folder = found.parts[0].model.rpartition("/")[0], here.parts[0].model.rpartition("/")[0]
    assert there.startswith(f"diffusers:{name}@")
    assert [replace(part, model=part.model.replace(there, folder)) for part in found.parts] == list(here.parts)
    assert replace(found, name=here.name, parts=here.parts) == here


def test_bytes_of_a_mixed_checkpoint_are_those_of_its_tensors(filled):
    model = find_model("mixed/Qwen3-FP8")
    # two layers of 64·64 + 128·64 + 64·128 weights of 1 byte, three fp32 scales each, a table of 256 · 64 in bf16
    assert model.stored_bytes == {"BF16": 256 * 64 * 2, "F8_E4M3": 2 * 20480, "F32": 2 * 3 * 4}
    assert model.exact_bytes == 256 * 64 * 2 + 2 * 20480 + 24
    assert count_parameters(model.architecture) > 20480 * 2


def test_an_adapter_counts_beside_its_model(filled, capsys):
    weights = []
    for words in ("lora/llama-r8", "hf:base/llama"):
        app(["llm", "memory", words, "--gpu", "l4", "--max-len", "64", "--json"], standalone_mode=False)
        weights.append(json.loads(capsys.readouterr().out)["stages"][0]["weights_bytes"])
    assert weights[0] > weights[1]
