"""A service asks the Hub only where its operator allows it."""

import json

import pytest

from capplan.serve.planning.answer import answer
from capplan.serve.planning.data import Data, prepared
from capplan.serve.planning.messages import Refusal, Reply, Task
from capplan.serve.settings import Settings
from capplan.verbs.llm.memory import LlmMemoryQuestion
from capplan.verbs.plan import PlanQuestion
from tests.hub.small_repositories import REPOSITORIES, whole


@pytest.fixture
def outcomes(hub, tmp_path, monkeypatch):
    """Return what answers a question, with and without the operator's permission."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    hub.add("org/llama", whole("llama"))
    for name in ("me/cats-resnet", "google/small-bert", "art/sd"):
        hub.add(name, REPOSITORIES[name].files, library=REPOSITORIES[name].library)

    def outcome(question, *, allows_hub):
        settings = prepared(Settings(state=tmp_path / "state", allows_hub=allows_hub))
        return answer(Task(question=question), Data(settings))

    return outcome


def test_names_of_the_hub_are_refused_and_not_looked_up(outcomes, hub):
    questions = [LlmMemoryQuestion(model="org/llama", gpu="l4")]
    questions += [PlanQuestion(model=words, gpus=("l4",)) for words in ("org/llama", "hf:google/small-bert", "art/sd")]
    for question in questions:
        found = outcomes(question, allows_hub=False)
        assert isinstance(found, Refusal)
        assert found.exit_code == 2
    assert hub.asked == []


def test_where_they_are_allowed_served_models_are_answered(outcomes, hub):
    found = outcomes(LlmMemoryQuestion(model="org/llama", gpu="l4"), allows_hub=True)
    assert isinstance(found, Reply)
    assert json.loads(found.content)["model"]["exact_bytes"] == 2 * (2 * 20480 + 256 * 64)


def test_where_they_are_allowed_models_of_pytorch_are_traced_from_their_configuration(outcomes, hub):
    found = outcomes(PlanQuestion(model="google/small-bert", gpus=("l4",)), allows_hub=True)
    assert isinstance(found, tuple)
    job = found[0]
    assert job.request.words.startswith("hf:small-bert+")
    assert json.loads(job.content)["hidden_size"] == 64
    found = outcomes(PlanQuestion(model="me/cats-resnet", gpus=("l4",)), allows_hub=True)
    assert isinstance(found, tuple)
    request = found[0].request
    assert (request.words, request.arg, request.input_size) == ("timm:resnet18", ("num_classes=2",), "3x96x96")


def test_pipelines_of_the_hub_are_not_taken(outcomes, hub):
    found = outcomes(PlanQuestion(model="art/sd", gpus=("l4",)), allows_hub=True)
    assert isinstance(found, Refusal)
    assert "name a published pipeline" in found.message
