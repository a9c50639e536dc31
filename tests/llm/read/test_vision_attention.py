"""How far the attention of image encoders reaches, by their configurations."""

import pytest

from capplan.llm.core.architecture import VisionTower
from capplan.llm.read.catalogue import find_in_catalogue, load_catalogue
from capplan.llm.read.config.fields import Fields
from capplan.llm.read.config.parse import read_vision


def test_every_image_encoder_of_the_catalogue_has_attention() -> None:
    towers = {name: model.architecture.vision for name, model in load_catalogue().items()}
    counted = {name: tower for name, tower in towers.items() if tower is not None}
    assert counted
    assert all(tower.attention_width or tower.window_width for tower in counted.values())


def test_gemma_3_attends_within_the_whole_image() -> None:
    # SigLIP So400m: 27 layers of 1,152; 4,096 patches: 4 · 27 · 1152 · 4096² = 2.09 TFLOP
    model = find_in_catalogue("gemma-3-27b-it")
    assert model is not None
    assert model.architecture.vision is not None
    assert model.architecture.vision.attention_flops(4096) == pytest.approx(4 * 27 * 1152 * 4096**2)


def test_windows_bound_the_attention_of_a_layer() -> None:
    # tiles of 24 × 24 patches, 34 layers of 1,408: five tiles take five times the attention of one
    tower = VisionTower(kind="llama4", parameters=1, window_width=34 * 1408, window_patches=576)
    assert tower.attention_flops(576) == pytest.approx(4 * 34 * 1408 * 576**2)
    assert tower.attention_flops(5 * 576) == pytest.approx(5 * tower.attention_flops(576))


def test_qwen25_vl_attends_within_windows_but_for_a_few_layers() -> None:
    # Qwen2.5-VL-7B: 32 layers of 1,280, four of them over the whole image, the others over 112 ÷ 14 = 8 by 8 patches
    vision = {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "patch_size": 14, "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31], "spatial_merge_size": 2, "out_hidden_size": 3584, "in_chans": 3,
    }  # fmt: skip
    fields = Fields({"model_type": "qwen2_5_vl", "vision_config": vision}, where="model")
    tower, _ = read_vision(fields, hidden_dim=3584)
    assert tower is not None
    assert (tower.attention_width, tower.window_width, tower.window_patches) == (4 * 1280, 28 * 1280, 64)
