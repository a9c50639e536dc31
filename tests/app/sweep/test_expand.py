"""Which models the entries of a sweep stand for."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.app.sweep.expand import expand_models, expand_sweep
from capplan.app.sweep.keys import KeyMaker
from capplan.app.sweep.request import SweepRequest
from capplan.core.sweep.definition import ModelEntry
from capplan.errors import UsageError
from capplan.verbs.sweep_file import read_sweep_file
from tests.app.sweep.conftest import make_request


def labels(*words: str, beside: Path | None = None) -> list[str]:
    return [each.label for each in expand_models([ModelEntry(words=each) for each in words], beside=beside)]


@pytest.mark.zoo
def test_a_glob_names_a_librarys_models_each_once() -> None:
    from capplan.probe.target.sources.image_zoos import timm_names

    found = labels("timm:vit_tiny_*", "timm:vit_tiny_patch16_224")
    assert found == [f"timm:{name}" for name in sorted(timm_names()) if name.startswith("vit_tiny_")]


@pytest.mark.zoo
def test_a_bare_glob_takes_torchvisions_model_where_both_libraries_have_it() -> None:
    found = labels("resnet5*")
    assert "torchvision:resnet50" in found
    assert "timm:resnet50" not in found
    assert "timm:resnet50d" in found


@pytest.mark.parametrize("glob", ["timm:no_such_model*", "torchvision:zzz*", "traces/*.trace.json"])
def test_a_glob_that_matches_nothing_is_an_error(glob: str) -> None:
    with pytest.raises(UsageError, match="matches no") as refused:
        labels(glob)
    assert glob in str(refused.value)


@pytest.mark.zoo
def test_a_list_of_which_no_name_is_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"resnet81.*did you mean .*resnet18"):
        labels("torchvision:resnet81")
    with pytest.raises(UsageError, match=r"none of the 3 names is known; the first: .*resnet81"):
        labels("torchvision:resnet81", "resnett50", "llm:qwen3-8bb")


@pytest.mark.zoo
def test_an_unknown_name_beside_known_ones_is_a_model_with_the_reason(traces: Path) -> None:
    known = str(traces / "narrow.trace.json")
    words = ("torchvision:resnet81", known, "ResNet-18", "llm:qwen3-8bb")
    models = expand_models([ModelEntry(words=name) for name in words])
    assert [model.label for model in models] == ["torchvision:resnet81", known, "resnet18", "llm:qwen3-8bb"]
    wrong, right, spelt, served = (model.unknown for model in models)
    assert (right, spelt) == (None, None)
    assert str(wrong).startswith("unknown torchvision model 'resnet81'; did you mean resnet18")
    assert re.search(r"did you mean.* qwen3-8b\b", str(served))


def test_a_folder_stands_for_its_traces_also_beside_the_sweeps_file(traces: Path) -> None:
    whole = [str(traces / "narrow.trace.json"), str(traces / "wide.trace.json")]
    assert labels(str(traces)) == whole
    assert labels(traces.name, beside=traces.parent / "sweep.yaml") == whole
    assert labels(f"{traces.name}/w*.trace.json", beside=traces.parent / "sweep.yaml") == whole[1:]


def test_a_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no traces"):
        labels(str(tmp_path))


def test_a_list_holds_a_model_a_line(tmp_path: Path, traces: Path) -> None:
    path = tmp_path / "models.txt"
    path.write_text(f"# ours\n{traces}/narrow.trace.json\n\n{traces}/wide.trace.json  # the large one\n")
    assert labels(str(path)) == [f"{traces}/narrow.trace.json", f"{traces}/wide.trace.json"]


@pytest.mark.parametrize("words", ["evil.py:Net", "evil.py", "os:system", "torch.nn:Identity"])
def test_a_file_of_data_imports_no_code_unless_that_is_allowed(words: str, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("open('made', 'w')")
    file = tmp_path / "sweep.yaml"
    file.write_text(f"models: ['{words}']\ngpus: [l4]\nworkloads: [{{batch: 1}}]\n")
    request = SweepRequest(definition=read_sweep_file(file), output=tmp_path / "results", file=file)
    with pytest.raises(UsageError, match="names code, which is not run for a file of data; add ⟨allow-code⟩"):
        expand_sweep(request)
    assert not (tmp_path / "made").exists()
    assert expand_sweep(replace(request, allow_code=True)).models
    assert expand_sweep(replace(request, file=None)).models


def test_energy_of_another_law_of_power_is_another_answer(traces: Path, tmp_path: Path) -> None:
    asked = expand_sweep(make_request(tmp_path / "out", [str(traces)], workloads=[{"batch": [1], "energy": True}]))
    law = asked.context.power_law
    assert law is not None
    other = replace(asked.context, power_law=replace(law, others=replace(law.others, memory=2 * law.others.memory)))
    [label] = asked.context.workloads
    keys = {KeyMaker.of(context, cache=None).unit_key("model", label) for context in (asked.context, other)}
    assert len(keys) == 2
