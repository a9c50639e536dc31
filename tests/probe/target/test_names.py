"""Names of library models from their sources: as the libraries list them, and as people write them."""

from pathlib import Path

import pytest

from capplan.errors import UnknownNameError, UsageError
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.target.names import canonical_words, former_names, source_names
from capplan.probe.target.resolve import load_target


@pytest.mark.zoo
def test_the_sources_name_what_the_libraries_register() -> None:
    from capplan.probe.target.sources.image_zoos import import_timm, torchvision_names

    assert source_names("torchvision") == torchvision_names()
    timm = import_timm()
    assert source_names("timm") == set(timm.list_models())
    assert former_names("timm") == set(timm.models._registry._deprecated_models)
    assert "ssl_resnet50" in former_names("timm")
    assert not former_names("torchvision")


@pytest.mark.zoo
@pytest.mark.parametrize("words", ["timm:ssl_resnet50", "ssl_resnet50"])
def test_names_of_earlier_releases_are_taken_as_the_library_takes_them(words: str) -> None:
    with pytest.warns(UserWarning, match="resnet50.fb_ssl_yfcc100m_ft_in1k"):
        model = load_target(canonical_words(words), request=InputRequest()).builder()
    assert type(model).__name__ == "ResNet"


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("EfficientNet-B0", "efficientnet_b0"),
        ("ResNet50", "resnet50"),
        ("timm:ViT_Base_Patch16_224", "timm:vit_base_patch16_224"),
        ("ResNet-50.a1_in1k", "resnet50.a1_in1k"),
        ("torchvision:ViT-B-16", "torchvision:vit_b_16"),
        ("torchvision.models.resnet50", "torchvision:resnet50"),
        ("torchvision.models.detection.ssd300_vgg16", "torchvision:ssd300_vgg16"),
    ],
)
def test_names_as_people_write_them(typed: str, meant: str) -> None:
    assert canonical_words(typed) == meant


@pytest.mark.parametrize("words", ["hf:bert", "net.py:Net", "package.module:Net", "model.gguf", "folder/model.onnx"])
def test_other_words_stay_as_they_are(words: str) -> None:
    assert canonical_words(words) == words


def test_a_file_without_an_ending_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("weights").write_bytes(b"")
    assert canonical_words("weights") == "weights"


@pytest.mark.zoo
def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean resnet50"):
        canonical_words("resnet5O")
    with pytest.raises(UnknownNameError, match="ultralytics"):
        canonical_words("yolov8n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [("timm/resnet50.a1_in1k", "timm:resnet50.a1_in1k"), ("hf-hub:timm/resnet50.a1_in1k", "timm:resnet50.a1_in1k"),
     ("facebook/dinov2-base", "is named hf:facebook/dinov2-base")],
)  # fmt: skip
def test_names_of_a_hub_are_answered_with_what_does(words: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        load_target(words, request=InputRequest())


@pytest.mark.zoo
def test_a_vision_transformer_is_built_for_the_images_asked_for() -> None:
    """By hand: 14 x 14 patches of 364 x 490 pixels are 26 x 35 tokens, beside a class token and four registers."""
    model = load_target("timm:vit_small_patch14_reg4_dinov2", request=InputRequest(size=(3, 364, 490))).build()
    assert model.pos_embed.shape[1] == 26 * 35


def test_nothing_is_downloaded() -> None:
    with pytest.raises(UsageError, match="nothing is"):
        canonical_words("https://example.org/model.pt")


@pytest.mark.zoo
def test_a_served_language_model_is_sent_to_the_verbs_that_take_it() -> None:
    with pytest.raises(UnknownNameError, match=r"`capplan llm plan llama-3\.1-8b-instruct`"):
        canonical_words("llama-3.1-8b-instruct")
