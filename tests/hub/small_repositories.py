"""Thirty small repositories of ten kinds, with the words that name the same files on this machine.

The configurations have the fields of published ones of their families, with few and narrow layers.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.llm.read.test_headers import entry, gguf_bytes, gguf_tensor, safetensors_bytes, tensor, text

Files = dict[str, bytes]

DECODER = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512, "torch_dtype": "bfloat16",
}  # fmt: skip
ENCODER = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256,
    "max_position_embeddings": 128,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SmallRepository:
    """A repository of the Hub.

    Attributes:
        kind: one of the ten.
        files: its files.
        asked: what of it is asked for, after its name: `:Q4_K_M`.
        local: the words that name its files, with FOLDER in the place of the folder that holds them.
        arg: arguments that the words need besides.
        size: input size that they need besides.
        beside: repositories that it names.
    """

    kind: str
    files: Files
    asked: str = ""
    local: str = "hf:FOLDER"
    arg: tuple[str, ...] = ()
    size: str | None = None
    library: str = ""
    beside: Mapping[str, Files] = field(default_factory=dict)


def as_json(content: Any) -> bytes:
    return json.dumps(content).encode()


def layer_tensors(layers: range, dtype: str, item_bytes: int, *, scales: bool = False) -> Files | bytes:
    """Return a safetensors file with the projections of some layers, and fp32 scales of blocks where asked."""
    header: dict[str, Any] = {}
    place = 0

    def add(name: str, dtype: str, shape: list[int], item_bytes: int) -> None:
        nonlocal place
        size = shape[0] * shape[1] * item_bytes
        header[name] = tensor(dtype, shape, place, place + size)
        place += size

    for layer in layers:
        for name, shape in (("self_attn.q_proj", [64, 64]), ("mlp.up_proj", [128, 64]), ("mlp.down_proj", [64, 128])):
            add(f"model.layers.{layer}.{name}.weight", dtype, shape, item_bytes)
            if scales:
                add(f"model.layers.{layer}.{name}.weight_scale_inv", "F32", [1, 1], 4)
    if 0 in layers:
        add("model.embed_tokens.weight", "BF16", [256, 64], 2)
    return safetensors_bytes(header, bytes(place))


def whole(model_type: str, **changes: Any) -> Files:
    config = {**DECODER, "model_type": model_type, **changes}
    return {"config.json": as_json(config), "model.safetensors": layer_tensors(range(2), "BF16", 2)}


def sharded(model_type: str, shards: int) -> Files:
    names = [f"model-{index + 1:05d}-of-{shards:05d}.safetensors" for index in range(shards)]
    files = {"config.json": as_json({**DECODER, "model_type": model_type, "num_hidden_layers": shards})}
    files |= {name: layer_tensors(range(index, index + 1), "BF16", 2) for index, name in enumerate(names)}
    weight_map = {f"model.layers.{index}.self_attn.q_proj.weight": name for index, name in enumerate(names)}
    return files | {"model.safetensors.index.json": as_json({"metadata": {}, "weight_map": weight_map})}


def mixed(model_type: str, **changes: Any) -> Files:
    quantisation = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = {**DECODER, "model_type": model_type, "quantization_config": quantisation, **changes}
    return {"config.json": as_json(config), "model.safetensors": layer_tensors(range(2), "F8_E4M3", 1, scales=True)}


MIXTURE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "head_dim": 16}


def gguf(part: tuple[int, int] = (1, 1)) -> bytes:
    """Return a GGUF file in Q4_K, or the part of one: all metadata stand in the first."""
    facts = {
        "block_count": 2, "embedding_length": 256, "context_length": 512, "feed_forward_length": 512,
        "attention.head_count": 4, "attention.head_count_kv": 2, "vocab_size": 1000,
    }  # fmt: skip
    keys = [entry("general.architecture", 8, text("llama"))]
    keys += [entry(f"llama.{name}", 4, struct.pack("<I", value)) for name, value in facts.items()]
    keys += [entry("general.file_type", 4, struct.pack("<I", 15))]
    index, count = part
    shapes = [("token_embd.weight", (256, 1000))] if index == 1 else []
    shapes += [("output.weight", (256, 1000))] if index == count else []
    content = gguf_bytes(keys, [gguf_tensor(name, shape, 12) for name, shape in shapes])
    return content + bytes(sum(rows * columns // 256 * 144 for _, (rows, columns) in shapes))


def adapter(base: str, rank: int) -> Files:
    config = {"base_model_name_or_path": base, "r": rank, "peft_type": "LORA", "target_modules": ["q_proj"]}
    return {"adapter_config.json": as_json(config), "adapter_model.safetensors": safetensors_bytes({})}


def sentences(place: str, config: Mapping[str, Any]) -> Files:
    kinds = [(place, "Transformer"), ("1_Pooling", "Pooling")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    return {f"{place}/config.json".lstrip("/"): as_json(config), "modules.json": as_json(modules)}


def timm(architecture: str, **facts: Any) -> Files:
    return {"config.json": as_json({"architecture": architecture, "num_features": 512, **facts})}


UNET = {
    "_class_name": "UNet2DConditionModel", "sample_size": 8, "in_channels": 4, "out_channels": 4, "norm_num_groups": 8,
    "cross_attention_dim": 32, "block_out_channels": [32, 64], "layers_per_block": 1, "attention_head_dim": 8,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
}  # fmt: skip
VAE = {
    "_class_name": "AutoencoderKL", "in_channels": 3, "out_channels": 3, "latent_channels": 4, "norm_num_groups": 8,
    "block_out_channels": [16, 32], "layers_per_block": 1, "sample_size": 16,
    "down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2,
}  # fmt: skip
CLIP = {
    "model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 256, "max_position_embeddings": 77,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip


def pipeline(**changes: Any) -> Files:
    index = {
        "_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"], "text_encoder": ["transformers", "CLIPTextModel"],
        "scheduler": ["diffusers", "DDIMScheduler"], "safety_checker": [None, None],
    }  # fmt: skip
    return {
        "model_index.json": as_json(index),
        "unet/config.json": as_json({**UNET, **changes}),
        "vae/config.json": as_json(VAE),
        "text_encoder/config.json": as_json(CLIP),
    }


BASES = {f"base/{kind}": whole(kind) for kind in ("llama", "mistral", "qwen2")}
BERT = {**ENCODER, "model_type": "bert"}

REPOSITORIES: Mapping[str, SmallRepository] = {
    **{f"dense/{kind}": SmallRepository(kind="dense", files=whole(kind)) for kind in ("llama", "qwen3", "mistral")},
    "moe/qwen3": SmallRepository(kind="mixture", files=whole("qwen3_moe", **MIXTURE)),
    "moe/mixtral": SmallRepository(kind="mixture", files=whole("mixtral", num_local_experts=8, num_experts_per_tok=2)),
    "moe/olmoe": SmallRepository(kind="mixture", files=whole("olmoe", num_experts=8, num_experts_per_tok=2)),
    **{f"many/{n}": SmallRepository(kind="sharded", files=sharded("llama", n)) for n in (2, 3, 11)},
    "mixed/Qwen3-FP8": SmallRepository(kind="mixed", files=mixed("qwen3")),
    "mixed/Qwen3-MoE-FP8": SmallRepository(kind="mixed", files=mixed("qwen3_moe", **MIXTURE)),
    "mixed/Llama.FP8": SmallRepository(kind="mixed", files=mixed("llama")),
    "gguf/One-GGUF": SmallRepository(
        kind="gguf", files={"One-Q4_K_M.gguf": gguf(), "README.md": b"#"}, local="FOLDER/One-Q4_K_M.gguf"
    ),
    "gguf/Two-GGUF": SmallRepository(
        kind="gguf", files={"Two-Q4_K_M.gguf": gguf(), "Two-Q8_0.gguf": b"", "mmproj-Two-Q4_K_M.gguf": b""},
        asked=":q4_k_m", local="FOLDER/Two-Q4_K_M.gguf",
    ),
    "gguf/Parts-GGUF": SmallRepository(
        kind="gguf",
        files={f"Q4_K_M/P-Q4_K_M-{index:05d}-of-00002.gguf": gguf((index, 2)) for index in (1, 2)},
        asked=":Q4_K_M", local="FOLDER/Q4_K_M/P-Q4_K_M-00001-of-00002.gguf",
    ),
    **{
        f"lora/{base}-r{rank}": SmallRepository(
            kind="adapter", files=adapter(f"base/{base}", rank), local=f"hf:FOLDER/../base+{base}",
            beside={f"base/{base}": BASES[f"base/{base}"]},
        )
        for base, rank in (("llama", 8), ("mistral", 16), ("qwen2", 64))
    },
    "sentences/bert": SmallRepository(kind="sentences", files=sentences("", BERT)),
    "sentences/old-mpnet": SmallRepository(
        kind="sentences", files=sentences("0_Transformer", {**ENCODER, "model_type": "mpnet"}),
        local="hf:FOLDER/0_Transformer",
    ),
    "sentences/roberta": SmallRepository(kind="sentences", files=sentences("", {**ENCODER, "model_type": "roberta"})),
    "me/cats-resnet": SmallRepository(
        kind="timm", files=timm("resnet18", num_classes=2, pretrained_cfg={"input_size": [3, 96, 96]}), library="timm",
        local="timm:resnet18", arg=("num_classes=2",), size="3x96x96",
    ),
    "timm/resnet18.of_tomorrow": SmallRepository(
        kind="timm", files=timm("resnet18", num_classes=10), library="timm", asked="@main", local="timm:resnet18",
        arg=("num_classes=10",),
    ),
    "me/small-vit": SmallRepository(
        kind="timm", library="timm", local="timm:vit_tiny_patch16_224", arg=("num_classes=3", "depth=2", "img_size=64"),
        files=timm(
            "vit_tiny_patch16_224", num_classes=3, model_args={"depth": 2, "img_size": 64},
            pretrained_cfg={"input_size": [3, 64, 64]},
        ),
        size="3x64x64",
    ),
    "art/sd": SmallRepository(kind="pipeline", files=pipeline(), local="diffusers:FOLDER"),
    "art/sd-wide": SmallRepository(
        kind="pipeline", files=pipeline(block_out_channels=[64, 128]), local="diffusers:FOLDER"
    ),
    "art/sd-deep": SmallRepository(kind="pipeline", files=pipeline(layers_per_block=2), local="diffusers:FOLDER"),
    "google/small-vit": SmallRepository(
        kind="transformers",
        files={"config.json": as_json({**ENCODER, "model_type": "vit", "image_size": 32, "patch_size": 8})},
    ),
    "google/small-bert": SmallRepository(
        kind="transformers", files={"config.json": as_json({**BERT, "architectures": ["BertForMaskedLM"]})}
    ),
    "openai/small-clip": SmallRepository(kind="transformers", files={"config.json": as_json(CLIP)}),
}  # fmt: skip
SERVED = ("dense", "mixture", "sharded", "mixed", "gguf", "adapter")
"""Kinds that are language models to serve; the others are models of PyTorch, and pipelines of them."""
