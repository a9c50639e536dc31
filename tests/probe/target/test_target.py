import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from capplan.core.ops.flops import kernel_macs
from capplan.core.workload import Configuration
from capplan.errors import CapplanError, TraceError, UnknownNameError, UsageError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target
from tests.input_tensors import input_tensors

NET = """
import torch
from torch import nn
from blocks import Block

print("loading")

class Net(nn.Module):
    def __init__(self, width: int = 8, depth: int = 1) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))

    def forward(self, x):
        return self.blocks(self.stem(x))

def make(width=4):
    return Net(width)

def no_module():
    return 3

instance = Net()
number = 7

class Fails(nn.Module):
    def __init__(self):
        raise ValueError("the moon is full")

class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()

class OnGpu(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4).cuda()
        self.register_buffer("table", torch.zeros(3, device="cuda:0"))
        self.rates = [rate.item() for rate in torch.linspace(0, 1, 3)]
        self.to("cuda")

class Downloads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.hub.load_state_dict_from_url("https://example.invalid/weights.pth")

class Quits(nn.Module):
    def __init__(self):
        raise SystemExit("bye")

def feed(batch):
    return {"x": torch.ones(batch, 3, 8, 8)}
"""
BLOCKS = """
from torch import nn

class Block(nn.Linear):
    def __init__(self, width):
        super().__init__(1, 1)
        self.conv = nn.Conv2d(width, width, 1)

    def forward(self, x):
        return self.conv(x)
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "blocks.py").write_text(BLOCKS)
    return str(tmp_path / "net.py")


def find(words: str, **options: object) -> Target:
    return load_target(words, request=parse_request(**options))  # type: ignore[arg-type]


def on_meta(target: Target) -> torch.nn.Module:
    with torch.device("meta"):
        return target.build()


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_a_class_takes_its_arguments(net: str) -> None:
    target = find(f"{net}:Net", arg=["width=16", "depth=0"], inputs=["x=3x8x8"])
    # a convolution of 16 filters over 3 channels of 3 by 3, and 16 biases
    assert parameters(on_meta(target)) == 16 * 3 * 9 + 16
    assert target.words == f"{net}:Net --arg width=16 --arg depth=0 --input x=Nx3x8x8"


def test_a_factory_makes_the_model(net: str) -> None:
    # a stem of 4·3·9 + 4, a linear layer of 2, a convolution of 4·4 + 4
    assert parameters(on_meta(find(f"{net}:make", input_size="3x8x8"))) == 112 + 2 + 20


def test_an_instance_is_copied_and_left_alone(net: str) -> None:
    target = find(f"{net}:instance", input_size="3x8x8")
    stand_in, real = on_meta(target), target.build()
    assert {tensor.device.type for tensor in stand_in.parameters()} == {"meta"}
    assert {tensor.device.type for tensor in real.parameters()} == {"cpu"}
    real.stem.weight.data.zero_()
    assert target.build().stem.weight.abs().sum() > 0


def test_what_model_code_prints_goes_to_stderr(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    find(f"{net}:Net", input_size="3x8x8")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loading" in captured.err


def test_files_of_two_folders_do_not_take_each_others_modules(net: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "net.py").write_text("from torch import nn\nfrom blocks import wide\n\ndef make():\n    return wide()\n")
    (other / "blocks.py").write_text("from torch import nn\n\ndef wide():\n    return nn.Linear(10, 20, bias=False)\n")
    first = find(f"{net}:Net", input_size="3x8x8")
    assert parameters(on_meta(find(f"{other / 'net.py'}:make", inputs=["10"]))) == 200
    assert parameters(on_meta(first)) > 0


def test_a_file_of_a_package_imports_relatively(tmp_path: Path) -> None:
    package = tmp_path / "relative_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("WIDTH = 5\n")
    (package / "net.py").write_text(
        "from torch import nn\nfrom .parts import WIDTH\n\ndef make():\n    return nn.Linear(WIDTH, 1, bias=False)\n"
    )
    assert parameters(on_meta(find(f"{package / 'net.py'}:make", inputs=["5"]))) == 5


def test_a_folder_never_goes_before_the_standard_library_for_long(net: str) -> None:
    before = list(sys.path)
    find(f"{net}:Net", input_size="3x8x8")
    assert sys.path[: len(before)] == [entry for entry in before if entry != str(Path(net).parent)]


def test_an_importable_module_is_named_by_its_path() -> None:
    target = find("torch.nn:Linear", arg=["in_features=4", "out_features=5"], inputs=["4"])
    assert parameters(on_meta(target)) == 4 * 5 + 5
    assert target.make_inputs(2, device="meta").names == ("input",)


def test_inputs_come_from_the_users_function(net: str) -> None:
    target = find(f"{net}:Net", inputs_from=f"{net}:feed")
    assert [tuple(tensor.shape) for tensor in input_tensors(target.make_inputs(5, device="meta"))] == [(5, 3, 8, 8)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{net}:Nett", "has no 'Nett'; its modules are Net"),
        ("{net}", "name the model of the file"),
        ("{net}:number", "is not an nn.Module, a class or a function that makes one: it is of type int"),
        ("{net}:Needs", "missing a required argument: 'width'"),
        ("{net}x.py:Net", "there is no file"),
        ("no_such_module:Net", "there is no module no_such_module"),
        ("model.onnx", "there is no model or file model.onnx. Give the code"),
        ("some/model", "there is no model or file some/model. Give the code"),
        ("some/config.json", "write hf:some/config.json"),
    ],
)
def test_words_that_name_no_model_are_told_in_one_sentence(net: str, words: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        find(words.format(net=net), input_size="3x8x8")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_inputs_are_asked_for_by_name(net: str) -> None:
    with pytest.raises(UsageError, match=r"forward\(x\).*⟨input⟩ x=3x224x224"):
        find(f"{net}:Net")


@pytest.mark.parametrize(
    ("name", "said"), [("Fails", "ValueError: the moon is full"), ("Quits", "SystemExit: bye"), ("no_module", "int")]
)
def test_a_constructor_that_fails_is_told_with_its_own_message(net: str, name: str, said: str) -> None:
    with pytest.raises(CapplanError, match=said):
        on_meta(find(f"{net}:{name}", input_size="3x8x8"))


def test_a_file_that_raises_is_told_and_may_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import nowhere_to_be_found\n")
    with pytest.raises(TraceError, match="nowhere_to_be_found"):
        find(f"{path}:Net", input_size="3x8x8")
    path.write_text("from torch import nn\nNet = nn.Identity\n")
    assert find(f"{path}:Net", input_size="3x8x8").name == "Net"


def test_a_constructor_that_wants_a_gpu_and_values_is_built_on_meta(net: str) -> None:
    module = on_meta(find(f"{net}:OnGpu", inputs=["4"]))
    assert {tensor.device.type for tensor in module.state_dict().values()} == {"meta"}
    assert module.rates == [0.0, 0.5, 1.0]


def test_nothing_is_downloaded(net: str) -> None:
    with pytest.raises(TraceError, match=r"reach example\.invalid, and nothing is downloaded"):
        on_meta(find(f"{net}:Downloads", input_size="3x8x8"))


def test_building_on_meta_leaves_global_state_alone(net: str) -> None:
    init, seeds = torch.nn.init.normal_, (torch.get_rng_state(), random.getstate())
    on_meta(find(f"{net}:Net", input_size="3x8x8"))
    assert torch.nn.init.normal_ is init
    assert torch.equal(torch.get_rng_state(), seeds[0])
    assert random.getstate() == seeds[1]
    assert torch.get_default_device().type == "cpu"


def test_a_real_build_is_initialised(net: str) -> None:
    assert 0 < find(f"{net}:Net", input_size="3x8x8").build().stem.weight.std() < 1


def test_the_source_hash_follows_the_file(net: str) -> None:
    first = find(f"{net}:Net", input_size="3x8x8").source_sha256
    # "sha256sum net.py", by another tool
    summed = subprocess.run(["sha256sum", net], capture_output=True, text=True, check=True).stdout.split()[0]
    assert first == summed


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("words", "params"),
    [
        # published in torchvision's weights tables, timm's results files and the models' papers
        ("torchvision:alexnet", 61_100_840),
        ("torchvision:resnet50", 25_557_032),
        ("torchvision:vit_b_16", 86_567_656),
        ("torchvision:regnet_y_400mf", 4_344_144),
        # torchvision builds another network without weights: auxiliary heads, batch norms that are trained
        ("torchvision:googlenet", 6_624_904),
        ("torchvision:deeplabv3_resnet50", 42_004_074),
        ("torchvision:fasterrcnn_resnet50_fpn", 41_755_286),
        ("torchvision:maskrcnn_resnet50_fpn", 44_401_393),
        ("torchvision:keypointrcnn_resnet50_fpn", 59_137_258),
        ("torchvision:retinanet_resnet50_fpn", 34_014_999),
        ("torchvision:fcos_resnet50_fpn", 32_269_600),
        ("torchvision:ssd300_vgg16", 35_641_826),
        ("timm:vit_base_patch16_224", 86_567_656),
        ("timm:resnet50.a1_in1k", 25_557_032),
        ("hf:bert", 109_482_240),
        ("hf:gpt2", 124_439_808),
    ],
)
def test_zoo_models_have_their_published_parameters(words: str, params: int) -> None:
    assert parameters(on_meta(find(words))) == params


@pytest.mark.zoo
def test_detectors_train_three_stages_of_their_backbone_as_with_weights() -> None:
    """By hand: the weights of the stem, and of the first stage's three blocks with their shortcut, are frozen."""
    stem, block = 64 * 3 * 7 * 7, 64 * 64 * 3 * 3 + 64 * 256
    first = (64 * 64 + block) + 64 * 256 + 2 * (256 * 64 + block)
    frozen = sum(
        held.numel() for held in on_meta(find("torchvision:maskrcnn_resnet50_fpn")).parameters()
        if not held.requires_grad
    )  # fmt: skip
    assert frozen == stem + first == 222_400


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("words", "shapes"),
    [
        ("torchvision:inception_v3", [(2, 3, 299, 299)]),
        ("torchvision:efficientnet_b4", [(2, 3, 380, 380)]),
        ("torchvision:deeplabv3_resnet50", [(2, 3, 520, 520)]),
        ("torchvision:raft_small", [(2, 3, 520, 960)] * 2),
        ("torchvision:swin3d_t", [(2, 3, 16, 224, 224)]),
        ("torchvision:r3d_18", [(2, 3, 16, 112, 112)]),
        ("torchvision:ssd300_vgg16", [(3, 300, 300)] * 2),
        ("timm:vit_base_patch16_384", [(2, 3, 384, 384)]),
        ("timm:efficientnet_b4", [(2, 3, 320, 320)]),
        ("hf:bert", [(2, 128)]),
        ("hf:t5", [(2, 128)] * 2),
        ("hf:vit", [(2, 3, 224, 224)]),
        ("hf:whisper", [(2, 80, 3000), (2, 128)]),
        ("hf:clip", [(2, 77), (2, 3, 224, 224)]),
        ("hf:wav2vec2", [(2, 160_000)]),
        ("hf:layoutlm", [(2, 128), (2, 128, 4)]),
        ("hf:videomae", [(2, 16, 3, 224, 224)]),
        ("hf:audio-spectrogram-transformer", [(2, 1024, 128)]),
    ],
)
def test_zoo_models_get_the_inputs_of_their_configs(words: str, shapes: list[tuple[int, ...]]) -> None:
    made = find(words).make_inputs(2, device="meta")
    assert [tuple(tensor.shape) for tensor in input_tensors(made)] == shapes


@pytest.mark.zoo
@pytest.mark.parametrize(
    "name",
    [
        "s3d", "r3d_18", "mvit_v2_s", "swin3d_t", "inception_v3", "efficientnet_v2_s", "lraspp_mobilenet_v3_large",
        "ssd300_vgg16", "regnet_y_400mf",
    ],
)  # fmt: skip
def test_torchvisions_inputs_are_those_of_its_published_gflops(name: str) -> None:
    target = find(f"torchvision:{name}")
    recording = trace_target(target, exact_batch=1).recording(Configuration())
    macs = sum(kernel_macs(recording.kernels[op.kernel], 1) for op in recording.ops)
    import torchvision

    # in the weights' metadata, in thousand millions of multiply-accumulates, to three digits after the point
    published = torchvision.models.get_model_weights(name).DEFAULT.meta["_ops"]
    assert macs / 1e9 == pytest.approx(published, rel=5e-4, abs=1e-3)


@pytest.mark.zoo
def test_arguments_that_change_the_image_change_the_input() -> None:
    target = find("timm:vit_tiny_patch16_224", arg=["img_size=448", "in_chans=1"])
    (image,) = input_tensors(target.make_inputs(2, device="meta"))
    assert tuple(image.shape) == (2, 1, 448, 448)
    assert on_meta(target)(image).shape == (2, 1000)


@pytest.mark.zoo
def test_a_size_replaces_the_image_or_its_sides() -> None:
    sizes = {"3x640x640": (1, 3, 640, 640), "320x256": (1, 3, 320, 256), "256": (1, 3, 256, 256)}
    for size, shape in sizes.items():
        (image,) = input_tensors(find("torchvision:resnet50", input_size=size).make_inputs(1, device="meta"))
        assert tuple(image.shape) == shape
    with pytest.raises(UsageError, match="more dimensions"):
        find("torchvision:resnet50", input_size="1x3x64x64")
    with pytest.raises(UsageError, match="could begin with the 3 channels or not"):
        find("torchvision:resnet50", input_size="3x224")


def test_one_number_is_no_size_of_a_module_whose_input_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("from torch import nn\nNet = nn.Identity\n")
    with pytest.raises(UsageError, match="write ⟨input-size⟩ 3x256x256 for an image, or ⟨input⟩ 256 for a vector"):
        find(f"{path}:Net", input_size="256")


@pytest.mark.zoo
def test_a_bare_name_is_torchvisions_and_the_other_is_told() -> None:
    target = find("resnet50")
    assert target.library == "torchvision"
    assert "timm:resnet50" in target.notes[0]
    assert find("vit_base_patch16_224").library == "timm"
    assert not find("timm:resnet50").notes


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("words", "nearest"),
    [("resnt50", "resnet50"), ("timm:vit_base_patch16_225", "vit_base_patch16_224"), ("hf:brt", "bert")],
)
def test_unknown_names_are_told_with_the_nearest(words: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=nearest):
        find(words)


@pytest.mark.zoo
def test_arguments_that_a_zoo_model_does_not_take_are_told() -> None:
    with pytest.raises(UsageError, match="unexpected keyword argument 'depth'"):
        on_meta(find("torchvision:resnet50", arg=["depth=3"]))
    with pytest.raises(UsageError, match="did you mean hidden_size"):
        find("hf:bert", arg=["hidden_sze=4"])


@pytest.mark.zoo
def test_tokens_are_for_transformers_only() -> None:
    with pytest.raises(UsageError, match="⟨seq-len⟩ is for transformers"):
        find("torchvision:resnet50", seq_len=128)


@pytest.mark.zoo
def test_nothing_of_timms_hub_is_fetched() -> None:
    with pytest.raises(UsageError, match="would be downloaded"):
        find("timm:hf-hub:timm/resnet50.a1_in1k")


def write_config(folder: Path, **content: object) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.zoo
def test_a_config_file_or_its_folder_names_a_model(tmp_path: Path) -> None:
    path = write_config(
        tmp_path / "tiny", model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=128, vocab_size=1000, tie_word_embeddings=False,
    )  # fmt: skip
    # per layer: q and o of 64·64, k and v of 64·32, three MLP matrices of 64·128, two norms of 64;
    # then embeddings and head of 1000·64 and the last norm
    expected = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 2 * 1000 * 64 + 64
    for words in (f"hf:{path}", f"hf:{path.parent}"):
        target = find(words, seq_len=7)
        assert target.name == "tiny"
        assert parameters(on_meta(target)) == expected
        (ids,) = input_tensors(target.make_inputs(3, device="cpu"))
        assert tuple(ids.shape) == (3, 7)
        assert int(ids.max()) < 1000


@pytest.mark.zoo
def test_a_configs_own_architecture_decides_the_class(tmp_path: Path) -> None:
    path = write_config(tmp_path / "classifier", model_type="bert", architectures=["BertForSequenceClassification"])
    assert type(on_meta(find(f"hf:{path}"))).__name__ == "BertForSequenceClassification"
    assert type(on_meta(find("hf:bert"))).__name__ == "BertModel"
    assert type(on_meta(find("hf:llama", arg=["num_hidden_layers=1"]))).__name__ == "LlamaForCausalLM"


@pytest.mark.zoo
def test_attention_is_fused_and_no_cache_is_kept() -> None:
    config = on_meta(find("hf:llama", arg=["num_hidden_layers=1"])).config
    assert config._attn_implementation == "sdpa"
    assert config.use_cache is False


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "no model_type"),
        ('{"model_type": ["bert"]}', "no model_type"),
        ('{"model_type": "brt"}', "did you mean bert"),
    ],
)
def test_a_file_that_is_no_config_is_told(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=said):
        find(f"hf:{path}")
    with pytest.raises(UsageError, match="a name of the Hub, as ORG/NAME"):
        find(f"hf:{tmp_path}/other/config.json")


@pytest.mark.zoo
@pytest.mark.nightly
def test_a_70_billion_llama_builds_without_weights(tmp_path: Path) -> None:
    path = write_config(
        tmp_path / "llama70b", model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=8192,
        num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8, intermediate_size=28672,
        vocab_size=128256, torch_dtype="bfloat16", tie_word_embeddings=False,
    )  # fmt: skip
    script = f"""
import pathlib, re, torch
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
target = load_target("hf:{path}", request=parse_request())
with torch.device("meta"):
    module = target.build()
print(sum(p.numel() for p in module.parameters()), module.lm_head.weight.dtype)
print(re.search("VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
"""
    lines = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    # the Llama 3 model card's 70.6 billion
    assert int(lines[0]) == 70_553_706_496
    assert lines[1] == "torch.bfloat16"
    # the weights would be 141 GB; torch itself takes some 300 MB
    assert int(lines[2]) * 1024 < 1e9


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({}, {"attn_implementation": "org/kernel"}),
        ({"attn_implementation": "org/kernel"}, {}),
        ({"_attn_implementation": {"": "org/kernel"}}, {}),
        ({"experts_implementation": "org/kernel@main:f"}, {}),
    ],
)
def test_a_config_that_names_kernels_to_download_is_refused(given, arguments):
    from capplan.probe.target.sources.transformers import make_config

    with pytest.raises(UsageError, match=r"^hf:bert: \w+_implementation .*org/kernel.* names code to download and run"):
        make_config("hf:bert", {"model_type": "bert", "hidden_size": 64, **given}, arguments)


@pytest.mark.zoo
def test_attention_is_chosen_by_the_name_that_from_pretrained_takes() -> None:
    from capplan.probe.target.sources.transformers import make_config

    for chosen in ("eager", "sdpa"):
        config = make_config("hf:bert", {"model_type": "bert"}, {"attn_implementation": chosen})
        assert config._attn_implementation == chosen
