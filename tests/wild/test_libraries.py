"""Models of libraries beyond the zoos, against torch's own counter and published figures; skipped where missing."""

import importlib.util
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

ONE_EACH = (
    ("diffusers", "diffusers:UNet2DConditionModel (SD 1.5)"),
    ("linformer", "linformer:LinformerLM"),
    ("open_clip", "open_clip_torch:ViT-B-32"),
    ("peft", "peft:LoRA on Llama"),
    ("perceiver_pytorch", "perceiver-pytorch:Perceiver"),
    ("rtdl_revisiting_models", "rtdl-revisiting-models:FTTransformer"),
    ("segmentation_models_pytorch", "segmentation-models-pytorch:Unet"),
    ("torch_geometric", "torch-geometric:GCN"),
    ("vit_pytorch", "vit-pytorch:ViT"),
    ("x_transformers", "x-transformers:decoder"),
)


@pytest.fixture(scope="module")
def wild() -> ModuleType:
    """The benchmark that makes the table, which examines one model after the other."""
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("wild_benchmark", BENCHMARKS / "wild.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.wild
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("package", "key"), ONE_EACH)
def test_parameters_and_macs_are_those_of_torch(wild: ModuleType, package: str, key: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed (capplan[wild])")
    row = wild.examine(key)
    assert row["outcome"] == "traced", row["cause"]
    assert row["parameters"] == row["reference_parameters"]
    assert row["macs"] == pytest.approx(row["reference_macs"], rel=0.001)


@pytest.mark.wild
@pytest.mark.filterwarnings("default")
def test_stable_diffusion_has_its_published_size(wild: ModuleType) -> None:
    """859,520,964 parameters; 338.6 G multiply-accumulates without attention's products, 401.6 G with them."""
    if find_spec("diffusers") is None:
        pytest.skip("diffusers is not installed (capplan[wild])")
    row = wild.examine("diffusers:UNet2DConditionModel (SD 1.5)")
    assert row["parameters"] == 859_520_964
    assert row["macs"] == pytest.approx(401.6e9, rel=0.0005)
