"""What the Hub refuses, what keeps it from being asked, and what a hostile repository may not do."""

import json
import struct

import pytest

from capplan.app.sweep.expand import expand_models
from capplan.core.named_code import names_code
from capplan.core.sweep.definition import ModelEntry
from capplan.errors import CapplanError
from capplan.hub import client, repository
from capplan.hub.names import parse_hub_name
from capplan.hub.permission import hub_forbidden
from capplan.hub.refusals import HubError, UnreachableError
from capplan.llm.read.sources import find_model
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.hub_names import find_on_hub, is_pipeline
from tests.hub.local_hub import commit_of
from tests.hub.small_repositories import adapter, as_json, whole


def refusal(words, find=find_model):
    with pytest.raises(CapplanError) as caught:
        find(words)
    assert "\n" not in str(caught.value)
    return caught.value


def asked(words):
    return find_on_hub(ModelRequest(words=words))


@pytest.fixture
def again(monkeypatch):
    """Ask the hub at every question: a name that was just found stands for its commit for a minute."""
    monkeypatch.setattr(repository, "_FRESH_S", 0.0)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Qwen/Qwen3-8B", ("Qwen/Qwen3-8B", None, "")),
        ("hf:Qwen/Qwen2.5-7B@v1.0", ("Qwen/Qwen2.5-7B", "v1.0", "")),
        ("hf-hub:timm/resnet50.a1_in1k", ("timm/resnet50.a1_in1k", None, "")),
        ("me/x-GGUF:UD-Q4_K_XL", ("me/x-GGUF", None, "UD-Q4_K_XL")),
        ("me/x@refs/pr/1:x.gguf", ("me/x", "refs/pr/1", "x.gguf")),
    ],
)
def test_names_are_read_as_people_write_them(words, found):
    name = parse_hub_name(words)
    assert name is not None
    assert (name.repository, name.revision, name.file) == found


@pytest.mark.parametrize(
    "words",
    [
        "resnet50", "hf:bert", "a/b/c", "models/net.py", "models/net.py:Net", "a/b:Name", "../x", "x/..", "a//b",
        "timm:resnet50", "diffusers:a/b", "models/x.onnx", "hf:x/config.json", "a/b?c", "a/b@", "https://x/y", "/a/b",
    ],
)  # fmt: skip
def test_other_words_are_no_names(words):
    assert parse_hub_name(words) is None


def test_what_lies_here_comes_first(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "tiny").mkdir(parents=True)
    (tmp_path / "org" / "tiny" / "config.json").write_bytes(whole("llama")["config.json"])
    assert find_model("org/tiny").origin is None
    assert hub.asked == []


def test_a_built_in_entry_comes_before_the_hub_and_says_so(hub):
    found = find_model("Qwen/Qwen3-8B")
    assert found.origin == "built-in entry; hf:Qwen/Qwen3-8B asks the Hub instead"
    assert hub.asked == []
    hub.add("Qwen/Qwen3-8B", whole("qwen3"))
    assert len(find_model("hf:Qwen/Qwen3-8B").architecture.layers) == 2


def test_a_revision_is_that_of_the_answer(hub):
    old, new = whole("llama"), whole("llama", num_hidden_layers=1)
    commit = hub.add("org/model", new, earlier={"v1": old})
    assert commit == commit_of(new)
    assert find_model("org/model").origin == f"org/model at revision {commit} of the Hugging Face Hub"
    for revision in ("v1", commit_of(old)):
        found = find_model(f"org/model@{revision}")
        assert len(found.architecture.layers) == 2
        assert commit_of(old) in found.origin
    assert "no such revision" in str(refusal("org/model@v2"))


def test_weights_are_never_fetched(hub):
    files = whole("llama")
    (header,) = struct.unpack("<Q", files["model.safetensors"][:8])
    hub.add("org/large", {**files, "model.safetensors": files["model.safetensors"] + bytes(10**7)})
    found = find_model("org/large")
    # two layers of 64·64 + 128·64 + 64·128 weights and a table of 256 · 64, in bf16
    assert found.exact_bytes == 2 * (2 * 20480 + 256 * 64) == len(files["model.safetensors"]) - 8 - header
    assert hub.sent_bytes < 200_000  # the beginning of a file is fetched in one step of 128 KiB


def test_a_renamed_repository_is_followed_and_named(hub):
    hub.add("org/new", whole("llama"))
    hub.add("org/old", {}, moved_to="org/new")
    found = find_model("org/old")
    assert found.hf_id == "org/new"
    assert "org/old is called org/new by now" in found.origin


def test_a_missing_repository_names_what_is_built_in(hub):
    assert "Of what is built in, did you mean qwen3-8b" in str(refusal("hf:Qwen/Qwen3-8b-of-mine").args[0])
    error = refusal("me/resnet5", asked)
    assert "neither here nor on the Hugging Face Hub" in str(error)
    assert "resnet50" in str(error)
    assert error.exit_code == 2


def test_private_and_gated_repositories_say_what_is_needed(hub, monkeypatch):
    hub.add("org/gated", whole("llama"), gated=True)
    hub.add("org/private", whole("llama"), private=True)
    assert f"accept its conditions at {hub.address}/org/gated; then run `hf auth login`" in str(refusal("org/gated"))
    assert "A private one needs a token" in str(refusal("org/private"))
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    assert "the token that was sent is of an account without access" in str(refusal("org/gated"))
    assert "refuses the token that was sent (401)" in str(refusal("org/private"))
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert find_model("org/gated").exact_bytes == find_model("org/private").exact_bytes


@pytest.mark.parametrize(
    ("fault", "words"),
    [("429", "ask again in 7 s"), ("503", "answers 503"), ("cut", "cut off"), ("html", "cut off")],
)
def test_a_hub_in_trouble_is_one_sentence_and_what_was_fetched_answers(hub, again, fault, words):
    hub.add("org/kept", whole("llama"))
    kept = find_model("org/kept")
    hub.add("org/other", whole("llama"))
    hub.fault = fault
    error = refusal("org/other")
    assert words in str(error)
    assert error.exit_code == 5
    found = find_model("org/kept")
    assert found.exact_bytes == kept.exact_bytes
    assert "a later revision may exist" in found.origin


def test_offline_what_was_fetched_answers(hub, again, monkeypatch):
    commit = hub.add("org/kept", whole("llama"))
    kept = find_model("org/kept")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert find_model("org/kept").exact_bytes == kept.exact_bytes
    assert find_model(f"org/kept@{commit}").origin == kept.origin
    error = refusal("org/other")
    assert "HF_HUB_OFFLINE forbids" in str(error)
    assert error.exit_code == 5
    assert "built-in entry, because the Hub was not asked" in find_model("hf:Qwen/Qwen3-8B").origin


def test_no_server_and_no_library_are_one_sentence(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "cannot be reached" in str(refusal("org/other"))
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    assert "not an http or https address" in str(refusal("org/other"))
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub.errors", None)
    assert "pip install huggingface_hub" in str(refusal("org/other"))


def test_without_ranges_sizes_follow_from_the_configuration(hub):
    hub.add("org/model", whole("llama"))
    hub.fault = "whole"
    found = find_model("org/model")
    assert found.exact_bytes is None
    assert "no headers were read" in found.origin
    assert hub.sent_bytes < 200_000 + len(whole("llama")["model.safetensors"])


def test_where_it_is_forbidden_no_name_is_looked_up(hub):
    hub.add("org/model", whole("llama"))
    find_model("org/model")
    before = len(hub.asked)
    with hub_forbidden():
        for find in (find_model, asked, is_pipeline):
            assert "starts it with --hub" in str(refusal("org/model", find))
    assert len(hub.asked) == before


def test_a_repository_brings_no_code(hub, tmp_path, monkeypatch):
    code = b"import pathlib; pathlib.Path('ran').write_text('')"
    config = {"model_type": "own", "auto_map": {"AutoConfig": "configuration_own.Own"}, "trust_remote_code": True}
    hub.add("org/own", {"config.json": as_json(config), "configuration_own.py": code})
    monkeypatch.chdir(tmp_path)
    found = asked("org/own")
    assert any("never run" in note for note in found.notes)
    refusal("org/own")
    assert not (tmp_path / "ran").exists()
    assert not any(path.endswith(".py") for path in hub.asked)
    assert not names_code("hf-hub:timm/resnet50")
    assert names_code("a/b:Name")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (struct.pack("<Q", 1 << 40) + b"{}", "impossible"),
        (struct.pack("<Q", 99_000_000) + b"{}" + bytes(100), "impossible"),
        (struct.pack("<Q", 8) + b"[1,2,3] ", "must be an object"),
        (b"GG", "at least 8 bytes"),
    ],
)
def test_a_hostile_header_is_refused_within_a_bound(hub, header, words):
    hub.add("org/bad", {**whole("llama"), "model.safetensors": header})
    assert words in str(refusal("org/bad"))


def test_a_gguf_header_that_claims_much_is_not_fetched_on_and_on(hub):
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 10**9) + bytes(2 * 10**6)
    hub.add("org/bad-GGUF", {"x-Q4_K_M.gguf": content})
    assert "longer than the file" in str(refusal("org/bad-GGUF"))
    assert hub.sent_bytes < 2 * 10**6


def test_a_large_configuration_is_refused_before_it_is_fetched(hub, monkeypatch):
    monkeypatch.setattr(client, "LARGEST_FILE_BYTES", 1000)
    hub.add("org/large", {"config.json": json.dumps({"x": "y" * 2000}).encode()})
    assert "at most 1,000 are read" in str(refusal("org/large"))


def test_files_outside_a_repository_are_not_named(hub):
    index = as_json({"weight_map": {"x": "../../../etc/passwd"}})
    hub.add("org/bad", {**whole("llama"), "model.safetensors.index.json": index})
    assert "outside the folder" in str(refusal("org/bad"))


def test_adapters_of_adapters_and_of_folders_are_refused(hub):
    hub.add("org/one", adapter("org/two", 8))
    hub.add("org/two", adapter("org/one", 8))
    hub.add("org/three", adapter("/home/me/model", 8))
    for find in (find_model, asked):
        assert "an adapter itself" in str(refusal("org/one", find))
        assert "is not on the Hub: name the model" in str(refusal("org/three", find))


def test_a_sweep_goes_on_without_a_name_that_the_hub_lacks(hub):
    commit = hub.add("org/here", whole("llama"))
    entries = [ModelEntry(words="org/here"), ModelEntry(words="org/missing")]
    here, missing = expand_models(entries)
    assert here.request.words == f"hf:org/here@{commit}"
    assert here.unknown is None
    assert "neither here nor on" in missing.unknown


def test_errors_of_the_hub_are_those_of_usage():
    assert issubclass(UnreachableError, HubError)
    assert HubError.exit_code == 2
