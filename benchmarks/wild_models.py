"""Models of libraries beyond the zoos, built from their configurations, with the inputs that they take.

Each entry names its library (the distribution on PyPI), a builder without arguments, and the inputs of a batch. The
libraries are imported inside the builders, so that one that is missing is skipped alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

Shapes = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a model's maker prints, with the digits that it prints: parameters in millions, MACs in 10^9."""

    source: str
    millions: str = ""
    gmacs: str = ""


@dataclass(frozen=True, kw_only=True)
class WildModel:
    """One model: its library, a name, how it is built, and what it is fed.

    `hand_macs` is a count that does not come from running the model, where torch's counter cannot run.
    """

    library: str
    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], Any]
    hand_macs: int | None = None
    published: Published | None = None

    @property
    def key(self) -> str:
        return f"{self.library}:{self.name}"


MODELS: list[WildModel] = []


def add(library: str, name: str, build: Callable[[], Any], inputs: Callable[[int], Any], **more: Any) -> None:
    MODELS.append(WildModel(library=library, name=name, build=build, inputs=inputs, **more))


def made(path: str, *args: Any, **kwargs: Any) -> Callable[[], Any]:
    """Return a builder that imports `package.module:Name` and calls it."""
    module, _, name = path.partition(":")

    def build() -> Any:
        thing: Any = import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
        return thing(*args, **kwargs)

    return build


def floats(*shape: int) -> Callable[[int], Any]:
    return lambda n: torch.rand(n, *shape)


def ids(length: int, high: int = 100) -> Callable[[int], Any]:
    return lambda n: torch.randint(0, high, (n, length))


def named(**shapes: Any) -> Callable[[int], Any]:
    """Return keyword inputs: a shape of floats, or an integer dtype's shape as `("int", shape, high)`."""

    def make(n: int) -> dict[str, Any]:
        found = {}
        for name, shape in shapes.items():
            if shape and shape[0] == "int":
                found[name] = torch.randint(0, shape[2], (n, *shape[1]))
            else:
                found[name] = torch.rand(n, *shape)
        return found

    return make


class Call(torch.nn.Module):
    """Calls a method of a module other than its forward."""

    def __init__(self, module: torch.nn.Module, method: str) -> None:
        super().__init__()
        self.module = module
        self.method = method

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.module, self.method)(*args, **kwargs)


# --- diffusers -------------------------------------------------------------------------------------------------------
_SD15 = {
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "layers_per_block": 2,
    "block_out_channels": (320, 640, 1280, 1280),
    "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
}
_UNET = named(sample=(4, 64, 64), timestep=("int", (), 1000), encoder_hidden_states=(77, 768))
add("diffusers", "UNet2DConditionModel (SD 1.5)", made("diffusers:UNet2DConditionModel", **_SD15), _UNET)
add(
    "diffusers",
    "UNet2DConditionModel (SD 2.1)",
    made(
        "diffusers:UNet2DConditionModel",
        **{**_SD15, "cross_attention_dim": 1024, "attention_head_dim": (5, 10, 20, 20), "use_linear_projection": True},
    ),
    named(sample=(4, 64, 64), timestep=("int", (), 1000), encoder_hidden_states=(77, 1024)),
)
add(
    "diffusers",
    "UNet2DModel",
    made("diffusers:UNet2DModel", sample_size=64),
    named(sample=(3, 64, 64), timestep=("int", (), 1000)),
)
add(
    "diffusers",
    "AutoencoderKL (SD)",
    made(
        "diffusers:AutoencoderKL",
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(128, 256, 512, 512),
        layers_per_block=2,
        latent_channels=4,
    ),
    named(sample=(3, 64, 64)),
)
add("diffusers", "AutoencoderTiny", made("diffusers:AutoencoderTiny"), named(sample=(3, 64, 64)))
add(
    "diffusers",
    "VQModel",
    made(
        "diffusers:VQModel",
        block_out_channels=(64, 128),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
    ),
    named(sample=(3, 32, 32)),
)
add(
    "diffusers",
    "ControlNetModel",
    made("diffusers:ControlNetModel", cross_attention_dim=768),
    named(
        sample=(4, 32, 32), timestep=("int", (), 1000), encoder_hidden_states=(77, 768), controlnet_cond=(3, 256, 256)
    ),
)
add(
    "diffusers",
    "DiTTransformer2DModel",
    made("diffusers:DiTTransformer2DModel", num_layers=12, sample_size=32),
    named(hidden_states=(4, 32, 32), timestep=("int", (), 1000), class_labels=("int", (), 1000)),
)
add(
    "diffusers",
    "SD3Transformer2DModel",
    made(
        "diffusers:SD3Transformer2DModel",
        num_layers=6,
        num_attention_heads=12,
        caption_projection_dim=768,
        pooled_projection_dim=512,
        joint_attention_dim=1024,
    ),
    named(
        hidden_states=(16, 32, 32),
        encoder_hidden_states=(77, 1024),
        pooled_projections=(512,),
        timestep=("int", (), 1000),
    ),
)
add(
    "diffusers",
    "PixArtTransformer2DModel",
    made("diffusers:PixArtTransformer2DModel", num_layers=4, caption_channels=512, sample_size=32),
    named(hidden_states=(4, 32, 32), encoder_hidden_states=(77, 512), timestep=("int", (), 1000)),
)
add(
    "diffusers",
    "UNetSpatioTemporalConditionModel",
    made(
        "diffusers:UNetSpatioTemporalConditionModel",
        block_out_channels=(64, 128, 256, 256),
        num_attention_heads=(2, 4, 8, 8),
    ),
    named(sample=(4, 8, 32, 32), timestep=("int", (), 1000), encoder_hidden_states=(1, 1024), added_time_ids=(3,)),
)

# --- ultralytics -----------------------------------------------------------------------------------------------------
for _yaml, _size in (
    ("yolov8n.yaml", 640),
    ("yolov8s.yaml", 640),
    ("yolov8m.yaml", 640),
    ("yolov5n.yaml", 640),
    ("yolov3-tiny.yaml", 640),
    ("yolov9t.yaml", 640),
    ("yolov10n.yaml", 640),
    ("yolo11n.yaml", 640),
    ("yolo12n.yaml", 640),
):
    add(
        "ultralytics",
        _yaml.removesuffix(".yaml"),
        made("ultralytics.nn.tasks:DetectionModel", _yaml, verbose=False),
        floats(3, _size, _size),
    )
add(
    "ultralytics",
    "yolov8n-seg",
    made("ultralytics.nn.tasks:SegmentationModel", "yolov8n-seg.yaml", verbose=False),
    floats(3, 640, 640),
)
add(
    "ultralytics",
    "yolov8n-pose",
    made("ultralytics.nn.tasks:PoseModel", "yolov8n-pose.yaml", verbose=False),
    floats(3, 640, 640),
)
add(
    "ultralytics",
    "yolov8n-cls",
    made("ultralytics.nn.tasks:ClassificationModel", "yolov8n-cls.yaml", verbose=False),
    floats(3, 224, 224),
)
add(
    "ultralytics",
    "rtdetr-l",
    made("ultralytics.nn.tasks:RTDETRDetectionModel", "rtdetr-l.yaml", verbose=False),
    floats(3, 640, 640),
)

# --- open_clip_torch -------------------------------------------------------------------------------------------------
for _clip, _size in (
    ("ViT-B-32", 224),
    ("RN50", 224),
    ("convnext_base", 224),
    ("ViT-B-16-SigLIP", 224),
    ("coca_ViT-B-32", 224),
):
    _length = {"ViT-B-16-SigLIP": 64, "coca_ViT-B-32": 76}.get(_clip, 77)
    add(
        "open_clip_torch",
        _clip,
        made("open_clip:create_model", _clip),
        lambda n, s=_size, m=_length: (torch.rand(n, 3, s, s), torch.randint(1, 1000, (n, m))),
    )


# --- sentence-transformers -------------------------------------------------------------------------------------------
def _sentence(kind: str, **config: Any) -> Callable[[], Any]:
    def build() -> Any:
        transformers, library = import_module("transformers"), import_module("sentence_transformers")
        modules: Any = import_module("sentence_transformers.sentence_transformer.modules")

        class Transformer(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.auto_model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **config))

            def forward(self, features: dict[str, Any]) -> dict[str, Any]:
                out = self.auto_model(**{k: features[k] for k in ("input_ids", "attention_mask")})
                return {**features, "token_embeddings": out.last_hidden_state}

        width = config.get("hidden_size", 768)
        pooling = modules.Pooling(width)
        dense = modules.Dense(width, 256)
        return library.SentenceTransformer(modules=[Transformer(), pooling, dense, modules.Normalize()], device="cpu")

    return build


def _features(length: int) -> Callable[[int], Any]:
    return lambda n: (
        {"input_ids": torch.randint(0, 1000, (n, length)), "attention_mask": torch.ones(n, length, dtype=torch.int64)},
    )


add(
    "sentence-transformers",
    "MiniLM-L6 (BERT)",
    _sentence("bert", hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
    _features(128),
)
add("sentence-transformers", "MPNet base", _sentence("mpnet"), _features(128))
add("sentence-transformers", "DistilRoBERTa", _sentence("roberta", num_hidden_layers=6), _features(128))


# --- torch-geometric -------------------------------------------------------------------------------------------------
def _graph(nodes: int, edges: int, width: int, **more: Any) -> Callable[[int], Any]:
    def make(n: int) -> Any:
        chance = torch.Generator().manual_seed(0)
        edge_index = torch.randint(0, nodes * n, (2, edges * n), generator=chance)
        found = {"x": torch.rand(nodes * n, width), "edge_index": edge_index}
        if more.get("batched"):
            found["batch"] = torch.arange(n).repeat_interleave(nodes)
        return found

    return make


for _kind in ("GCN", "GraphSAGE", "GIN", "GAT"):
    add(
        "torch-geometric",
        _kind,
        made(f"torch_geometric.nn:{_kind}", 64, 128, 3, out_channels=10),
        _graph(500, 2000, 64),
    )
add(
    "torch-geometric",
    "PNA",
    made(
        "torch_geometric.nn:PNA",
        64,
        64,
        2,
        out_channels=10,
        aggregators=["mean", "max"],
        scalers=["identity"],
        deg=torch.tensor([0, 10, 100, 50]),
    ),
    _graph(500, 2000, 64),
)
add("torch-geometric", "GraphUNet", made("torch_geometric.nn:GraphUNet", 64, 64, 10, depth=2), _graph(200, 800, 64))
add(
    "torch-geometric",
    "MLP",
    made("torch_geometric.nn:MLP", [64, 128, 10]),
    floats(64),
)

# --- monai -----------------------------------------------------------------------------------------------------------
add(
    "monai",
    "UNet 3D",
    made(
        "monai.networks.nets:UNet",
        spatial_dims=3,
        in_channels=1,
        out_channels=2,
        channels=(16, 32, 64, 128),
        strides=(2, 2, 2),
        num_res_units=2,
    ),
    floats(1, 64, 64, 64),
)
add(
    "monai",
    "DynUNet",
    made("monai.networks.nets:DynUNet", 3, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2]),
    floats(1, 32, 32, 32),
)
add(
    "monai",
    "SegResNet",
    made("monai.networks.nets:SegResNet", spatial_dims=3, in_channels=1, out_channels=2),
    floats(1, 32, 32, 32),
)
add(
    "monai",
    "UNETR",
    made("monai.networks.nets:UNETR", in_channels=1, out_channels=2, img_size=(32, 32, 32)),
    floats(1, 32, 32, 32),
)
add(
    "monai",
    "SwinUNETR",
    made("monai.networks.nets:SwinUNETR", in_channels=1, out_channels=2, feature_size=12),
    floats(1, 64, 64, 64),
)
add(
    "monai",
    "DenseNet121 3D",
    made("monai.networks.nets:DenseNet121", spatial_dims=3, in_channels=1, out_channels=2),
    floats(1, 64, 64, 64),
)
add("monai", "VNet", made("monai.networks.nets:VNet", in_channels=1, out_channels=2), floats(1, 32, 32, 32))
add(
    "monai",
    "AttentionUnet",
    made("monai.networks.nets:AttentionUnet", 2, 1, 2, (16, 32, 64), (2, 2)),
    floats(1, 64, 64),
)
add(
    "monai",
    "ViT",
    made("monai.networks.nets:ViT", in_channels=1, img_size=(32, 32, 32), patch_size=(8, 8, 8)),
    floats(1, 32, 32, 32),
)

# --- speechbrain -----------------------------------------------------------------------------------------------------
_SB = "speechbrain.lobes.models"
add("speechbrain", "ECAPA-TDNN", made(f"{_SB}.ECAPA_TDNN:ECAPA_TDNN", 80, lin_neurons=192), floats(300, 80))
add("speechbrain", "Xvector", made(f"{_SB}.Xvector:Xvector", in_channels=40), floats(300, 40))
add("speechbrain", "CRDNN", made(f"{_SB}.CRDNN:CRDNN", input_size=40, rnn_layers=2, dnn_blocks=1), floats(200, 40))
add(
    "speechbrain",
    "ConvTasNet MaskNet",
    made(f"{_SB}.conv_tasnet:MaskNet", 64, 64, 64, 3, 4, 2, 2, "gLN", False, "relu"),
    floats(64, 200),
)
add(
    "speechbrain",
    "HifiGAN generator",
    made(
        f"{_SB}.HifiGAN:HifiganGenerator",
        in_channels=80,
        out_channels=1,
        resblock_type="1",
        resblock_dilation_sizes=[[1, 3, 5]] * 3,
        resblock_kernel_sizes=[3, 7, 11],
        upsample_kernel_sizes=[16, 16, 4, 4],
        upsample_initial_channel=512,
        upsample_factors=[8, 8, 2, 2],
    ),
    floats(80, 50),
)

# --- segmentation-models-pytorch -------------------------------------------------------------------------------------
for _arch in (
    "Unet",
    "UnetPlusPlus",
    "FPN",
    "PSPNet",
    "DeepLabV3Plus",
    "MAnet",
    "Linknet",
    "PAN",
    "UPerNet",
    "Segformer",
):
    add(
        "segmentation-models-pytorch",
        _arch,
        made(f"segmentation_models_pytorch:{_arch}", "resnet34", encoder_weights=None),
        floats(3, 256, 256),
    )

# --- x-transformers, vit-pytorch and the like ------------------------------------------------------------------------
_X = "x_transformers"


def _x_decoder(**more: Any) -> Callable[[], Any]:
    def build() -> Any:
        x = import_module(_X)
        return x.TransformerWrapper(
            num_tokens=1000, max_seq_len=256, attn_layers=x.Decoder(dim=256, depth=4, heads=4, **more)
        )

    return build


add("x-transformers", "decoder", _x_decoder(), ids(256))
add(
    "x-transformers",
    "decoder, rotary and SwiGLU",
    _x_decoder(rotary_pos_emb=True, ff_swish=True, ff_glu=True),
    ids(256),
)
add("x-transformers", "decoder, flash", _x_decoder(attn_flash=True), ids(256))
add("x-transformers", "decoder, ALiBi", _x_decoder(alibi_pos_bias=True), ids(256))
add(
    "x-transformers",
    "XTransformer",
    made(
        f"{_X}:XTransformer",
        dim=128,
        enc_num_tokens=256,
        enc_depth=2,
        enc_heads=4,
        enc_max_seq_len=64,
        dec_num_tokens=256,
        dec_depth=2,
        dec_heads=4,
        dec_max_seq_len=64,
    ),
    lambda n: (torch.randint(0, 256, (n, 64)), torch.randint(0, 256, (n, 64))),
)

_V = {"image_size": 224, "patch_size": 16, "num_classes": 1000, "dim": 384, "depth": 4, "heads": 6, "mlp_dim": 1024}
add("vit-pytorch", "ViT", made("vit_pytorch:ViT", **_V), floats(3, 224, 224))
add("vit-pytorch", "SimpleViT", made("vit_pytorch:SimpleViT", **_V), floats(3, 224, 224))
add("vit-pytorch", "DeepViT", made("vit_pytorch.deepvit:DeepViT", **_V), floats(3, 224, 224))
add("vit-pytorch", "CaiT", made("vit_pytorch.cait:CaiT", **_V, cls_depth=2), floats(3, 224, 224))
add(
    "vit-pytorch",
    "T2T-ViT",
    made(
        "vit_pytorch.t2t:T2TViT",
        dim=256,
        image_size=224,
        depth=4,
        heads=4,
        mlp_dim=512,
        num_classes=1000,
        t2t_layers=((7, 4), (3, 2), (3, 2)),
    ),
    floats(3, 224, 224),
)
add("vit-pytorch", "CvT", made("vit_pytorch.cvt:CvT", num_classes=1000), floats(3, 224, 224))
add("vit-pytorch", "CrossFormer", made("vit_pytorch.crossformer:CrossFormer", num_classes=1000), floats(3, 224, 224))
add(
    "vit-pytorch",
    "MaxViT",
    made("vit_pytorch.max_vit:MaxViT", num_classes=1000, dim=64, depth=(1, 1, 2, 1), window_size=7),
    floats(3, 224, 224),
)
add(
    "vit-pytorch",
    "LeViT",
    made(
        "vit_pytorch.levit:LeViT",
        image_size=224,
        num_classes=1000,
        stages=3,
        dim=(128, 256, 384),
        depth=2,
        heads=(4, 6, 8),
        mlp_mult=2,
    ),
    floats(3, 224, 224),
)
add(
    "vit-pytorch",
    "NaViT (list of images)",
    made(
        "vit_pytorch.na_vit:NaViT",
        image_size=128,
        patch_size=16,
        num_classes=10,
        dim=128,
        depth=2,
        heads=4,
        mlp_dim=256,
    ),
    lambda n: ([[torch.rand(3, 64, 64), torch.rand(3, 96, 64)] for _ in range(n)],),
)
add(
    "vit-pytorch",
    "3D ViT",
    made(
        "vit_pytorch.vit_3d:ViT",
        image_size=64,
        frames=8,
        image_patch_size=16,
        frame_patch_size=2,
        num_classes=10,
        dim=128,
        depth=2,
        heads=4,
        mlp_dim=256,
    ),
    floats(3, 8, 64, 64),
)

add(
    "perceiver-pytorch",
    "Perceiver",
    made(
        "perceiver_pytorch:Perceiver",
        input_channels=3,
        input_axis=2,
        num_freq_bands=6,
        depth=2,
        max_freq=10.0,
        num_latents=64,
        latent_dim=128,
    ),
    floats(64, 64, 3),
)
add(
    "perceiver-pytorch",
    "PerceiverIO",
    made(
        "perceiver_pytorch:PerceiverIO", dim=32, queries_dim=32, logits_dim=100, depth=2, num_latents=64, latent_dim=128
    ),
    lambda n: {"data": torch.rand(n, 128, 32), "queries": torch.rand(64, 32)},
)
add(
    "performer-pytorch",
    "PerformerLM",
    made("performer_pytorch:PerformerLM", num_tokens=1000, max_seq_len=256, dim=128, depth=2, heads=4),
    ids(256),
)
add(
    "linformer",
    "LinformerLM",
    made("linformer:LinformerLM", num_tokens=1000, dim=128, seq_len=256, depth=2, heads=4, k=64),
    ids(256),
)
add(
    "reformer-pytorch",
    "ReformerLM",
    made("reformer_pytorch:ReformerLM", num_tokens=1000, dim=128, depth=2, max_seq_len=256, heads=4, bucket_size=32),
    ids(256),
)
add(
    "local-attention",
    "LocalTransformer",
    made(
        "local_attention:LocalTransformer", num_tokens=256, dim=128, depth=2, max_seq_len=256, local_attn_window_size=64
    ),
    ids(256),
)
add(
    "nystrom-attention",
    "Nystromformer",
    made("nystrom_attention:Nystromformer", dim=128, dim_head=32, heads=4, depth=2, num_landmarks=64),
    floats(256, 128),
)
add(
    "memory-efficient-attention-pytorch",
    "Transformer",
    made(
        "memory_efficient_attention_pytorch.transformer:Transformer",
        num_tokens=256,
        dim=128,
        max_seq_len=256,
        depth=2,
        dim_head=32,
        heads=4,
    ),
    ids(256),
)
add("conformer", "ConformerBlock", made("conformer:ConformerBlock", dim=256), floats(200, 256))
add(
    "tab-transformer-pytorch",
    "TabTransformer",
    made(
        "tab_transformer_pytorch:TabTransformer",
        categories=(10, 5, 6, 5, 8),
        num_continuous=10,
        dim=32,
        depth=2,
        heads=4,
        mlp_act=torch.nn.ReLU(),
    ),
    lambda n: (torch.randint(0, 5, (n, 5)), torch.rand(n, 10)),
)
add(
    "tab-transformer-pytorch",
    "FTTransformer",
    made(
        "tab_transformer_pytorch:FTTransformer",
        categories=(10, 5, 6, 5, 8),
        num_continuous=10,
        dim=32,
        depth=2,
        heads=4,
    ),
    lambda n: (torch.randint(0, 5, (n, 5)), torch.rand(n, 10)),
)
add(
    "rtdl-revisiting-models",
    "FTTransformer",
    made(
        "rtdl_revisiting_models:FTTransformer",
        n_cont_features=10,
        cat_cardinalities=[3, 4],
        d_out=2,
        n_blocks=2,
        d_block=64,
        attention_n_heads=8,
        attention_dropout=0.1,
        ffn_d_hidden=None,
        ffn_d_hidden_multiplier=2,
        ffn_dropout=0.1,
        residual_dropout=0.0,
    ),
    lambda n: (torch.rand(n, 10), torch.randint(0, 3, (n, 2))),
)
add(
    "rtdl-revisiting-models",
    "ResNet",
    made(
        "rtdl_revisiting_models:ResNet",
        d_in=16,
        d_out=2,
        n_blocks=2,
        d_block=64,
        d_hidden=None,
        d_hidden_multiplier=2.0,
        dropout1=0.1,
        dropout2=0.0,
    ),
    floats(16),
)
add(
    "pytorch-tabnet",
    "TabNet",
    made("pytorch_tabnet.tab_network:TabNet", 16, 2, group_attention_matrix=torch.eye(16)),
    floats(16),
)
add(
    "vector-quantize-pytorch",
    "VectorQuantize",
    made("vector_quantize_pytorch:VectorQuantize", dim=64, codebook_size=128),
    floats(100, 64),
)
add(
    "vector-quantize-pytorch",
    "ResidualVQ",
    made("vector_quantize_pytorch:ResidualVQ", dim=64, codebook_size=128, num_quantizers=4),
    floats(100, 64),
)
add("vector-quantize-pytorch", "FSQ", made("vector_quantize_pytorch:FSQ", levels=[8, 5, 5, 5], dim=64), floats(100, 64))
add(
    "denoising-diffusion-pytorch",
    "Unet",
    made("denoising_diffusion_pytorch:Unet", dim=32, dim_mults=(1, 2, 4)),
    lambda n: (torch.rand(n, 3, 32, 32), torch.randint(0, 1000, (n,))),
)
add(
    "denoising-diffusion-pytorch",
    "Unet1D",
    made("denoising_diffusion_pytorch:Unet1D", dim=32, dim_mults=(1, 2, 4), channels=4),
    lambda n: (torch.rand(n, 4, 128), torch.randint(0, 1000, (n,))),
)
add(
    "denoising-diffusion-pytorch",
    "KarrasUnet",
    made("denoising_diffusion_pytorch:KarrasUnet", image_size=32, dim=64),
    lambda n: (torch.rand(n, 4, 32, 32), torch.rand(n)),
)
add(
    "enformer-pytorch",
    "Enformer",
    made(
        "enformer_pytorch:Enformer.from_hparams",
        dim=768,
        depth=2,
        heads=4,
        target_length=16,
        output_heads={"human": 10},
    ),
    ids(4096, 5),
)

# --- kornia, peft, lightning, torchao --------------------------------------------------------------------------------
add(
    "kornia",
    "LoFTR",
    made("kornia.feature:LoFTR", pretrained=None),
    lambda n: ({"image0": torch.rand(n, 1, 64, 64), "image1": torch.rand(n, 1, 64, 64)},),
)
add("kornia", "HardNet", made("kornia.feature:HardNet", False), floats(1, 32, 32))
add("kornia", "SOSNet", made("kornia.feature:SOSNet", False), floats(1, 32, 32))
add("kornia", "DISK", made("kornia.feature:DISK"), lambda n: (torch.rand(n, 3, 64, 64),))
add("kornia", "TinyViT", made("kornia.contrib:TinyViT"), floats(3, 224, 224))
add("kornia", "TinyViT (5m)", made("kornia.contrib:TinyViT.from_config", "5m"), floats(3, 224, 224))


def _lora(**more: Any) -> Callable[[], Any]:
    def build() -> Any:
        peft, transformers = import_module("peft"), import_module("transformers")
        config = transformers.LlamaConfig(
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            vocab_size=1000,
        )
        return peft.get_peft_model(
            transformers.LlamaForCausalLM(config), peft.LoraConfig(target_modules=["q_proj", "v_proj"], **more)
        )

    return build


add("peft", "LoRA on Llama", _lora(r=8), lambda n: {"input_ids": torch.randint(0, 1000, (n, 64))})
add("peft", "DoRA on Llama", _lora(r=8, use_dora=True), lambda n: {"input_ids": torch.randint(0, 1000, (n, 64))})


def _ia3() -> Any:
    peft, transformers = import_module("peft"), import_module("transformers")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=128, n_head=4))
    return peft.get_peft_model(
        model, peft.IA3Config(target_modules=["c_attn"], feedforward_modules=[], fan_in_fan_out=True)
    )


add("peft", "IA3 on GPT-2", _ia3, lambda n: {"input_ids": torch.randint(0, 1000, (n, 64))})


def _lightning() -> Any:
    lightning = import_module("lightning")

    class Classifier(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Sequential(
                torch.nn.Conv2d(3, 32, 3),
                torch.nn.ReLU(),
                torch.nn.AdaptiveAvgPool2d(1),
                torch.nn.Flatten(),
                torch.nn.Linear(32, 10),
            )
            self.example_input_array = torch.zeros(1, 3, 32, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.log_dict({})
            return self.net(x)

    return Classifier()


add("lightning", "LightningModule", _lightning, floats(3, 32, 32))


def _quantised(name: str, *args: Any) -> Callable[[], Any]:
    def build() -> Any:
        quantization = import_module("torchao.quantization")
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 128))
        quantization.quantize_(model, getattr(quantization, name)(*args))
        return model

    return build


add("torchao", "int8 weight-only", _quantised("Int8WeightOnlyConfig"), floats(256))
add("torchao", "int8 dynamic activation", _quantised("Int8DynamicActivationInt8WeightConfig"), floats(256))

# --- audio -----------------------------------------------------------------------------------------------------------
add(
    "torchaudio",
    "Conformer",
    made(
        "torchaudio.models:Conformer",
        input_dim=80,
        num_heads=4,
        ffn_dim=128,
        num_layers=2,
        depthwise_conv_kernel_size=31,
    ),
    lambda n: (torch.rand(n, 200, 80), torch.full((n,), 200)),
)
add("torchaudio", "wav2vec2_base", made("torchaudio.models:wav2vec2_base"), floats(16000))
add("torchaudio", "ConvTasNet", made("torchaudio.models:ConvTasNet"), floats(1, 8000))
add("torchaudio", "DeepSpeech", made("torchaudio.models:DeepSpeech", n_feature=40), floats(1, 200, 40))
add(
    "torchaudio",
    "WaveRNN",
    made("torchaudio.models:WaveRNN", upsample_scales=[5, 5, 8], n_classes=512, hop_length=200),
    lambda n: (torch.rand(n, 1, 2200 - 200 * 4 + 400), torch.rand(n, 1, 128, 9 + 4)),
)
add(
    "demucs",
    "HTDemucs",
    made("demucs.htdemucs:HTDemucs", sources=["drums", "bass", "other", "vocals"], segment=2),
    floats(2, 88200),
)
add("demucs", "Demucs", made("demucs.demucs:Demucs", sources=["drums", "bass"], channels=16, depth=4), floats(2, 44100))
add(
    "encodec",
    "EncodecModel 24 kHz",
    made("encodec:EncodecModel.encodec_model_24khz", pretrained=False),
    floats(1, 24000),
)


def _whisper(size: int = 384, layers: int = 4) -> Any:
    model = import_module("whisper.model")
    dims = model.ModelDimensions(
        n_mels=80,
        n_audio_ctx=1500,
        n_audio_state=size,
        n_audio_head=6,
        n_audio_layer=layers,
        n_vocab=51865,
        n_text_ctx=448,
        n_text_state=size,
        n_text_head=6,
        n_text_layer=layers,
    )
    return model.Whisper(dims)


add("openai-whisper", "tiny", _whisper, lambda n: (torch.rand(n, 80, 3000), torch.randint(0, 1000, (n, 32))))
add(
    "openai-whisper",
    "base",
    lambda: _whisper(528, 6),
    lambda n: (torch.rand(n, 80, 3000), torch.randint(0, 1000, (n, 32))),
)

# --- vision ----------------------------------------------------------------------------------------------------------
for _net in ("efficientnet-b0", "efficientnet-b3"):
    add("efficientnet_pytorch", _net, made("efficientnet_pytorch:EfficientNet.from_name", _net), floats(3, 224, 224))
for _net, _size in (
    ("xception", 299),
    ("inceptionv4", 299),
    ("se_resnet50", 224),
    ("dpn68", 224),
    ("nasnetamobile", 224),
    ("polynet", 331),
):
    add(
        "pretrainedmodels",
        _net,
        made(f"pretrainedmodels:{_net}", num_classes=1000, pretrained=None),
        floats(3, _size, _size),
    )
add(
    "pytorchvideo", "Slow R50", made("pytorchvideo.models.resnet:create_resnet", model_depth=50), floats(3, 8, 224, 224)
)
add(
    "pytorchvideo",
    "X3D",
    made("pytorchvideo.models.x3d:create_x3d", input_clip_length=4, input_crop_size=160),
    floats(3, 4, 160, 160),
)
add(
    "pytorchvideo",
    "MViT",
    made(
        "pytorchvideo.models.vision_transformers:create_multiscale_vision_transformers",
        spatial_size=112,
        temporal_size=8,
        depth=4,
        embed_dim_mul=[[1, 2.0]],
        atten_head_mul=[[1, 2.0]],
        pool_q_stride_size=[[1, 1, 2, 2]],
        pool_kv_stride_adaptive=[1, 4, 4],
        pool_kvq_kernel=[3, 3, 3],
        head_num_classes=10,
    ),
    floats(3, 8, 112, 112),
)


def _effdet(name: str) -> Callable[[], Any]:
    def build() -> Any:
        effdet = import_module("effdet")
        return effdet.EfficientDet(effdet.get_efficientdet_config(name), pretrained_backbone=False)

    return build


for _net, _size in (("tf_efficientdet_d0", 512), ("efficientdet_d1", 640)):
    add("effdet", _net, _effdet(_net), floats(3, _size, _size))
add(
    "lpips",
    "LPIPS (AlexNet)",
    made("lpips:LPIPS", net="alex", pretrained=False, pnet_rand=True, verbose=False),
    lambda n: (torch.rand(n, 3, 64, 64), torch.rand(n, 3, 64, 64)),
)
add(
    "lpips",
    "LPIPS (VGG)",
    made("lpips:LPIPS", net="vgg", pretrained=False, pnet_rand=True, verbose=False),
    lambda n: (torch.rand(n, 3, 64, 64), torch.rand(n, 3, 64, 64)),
)
add(
    "segment-anything-py",
    "SAM ViT-B image encoder",
    lambda: import_module("segment_anything").sam_model_registry["vit_b"]().image_encoder,
    floats(3, 1024, 1024),
)
add(
    "facenet-pytorch",
    "InceptionResnetV1",
    made("facenet_pytorch:InceptionResnetV1", num_classes=10, classify=True),
    floats(3, 160, 160),
)
add("facenet-pytorch", "PNet", made("facenet_pytorch:PNet", pretrained=False), floats(3, 64, 64))
add(
    "spandrel",
    "RRDBNet (ESRGAN)",
    made("spandrel.architectures.ESRGAN:ESRGAN", num_filters=32, num_blocks=4),
    floats(3, 64, 64),
)
add(
    "spandrel",
    "SwinIR",
    made(
        "spandrel.architectures.SwinIR:SwinIR",
        img_size=64,
        window_size=8,
        embed_dim=60,
        depths=(2, 2),
        num_heads=(6, 6),
    ),
    floats(3, 64, 64),
)
add(
    "dynamic-network-architectures",
    "PlainConvUNet (nnU-Net)",
    made(
        "dynamic_network_architectures.architectures.unet:PlainConvUNet",
        1,
        4,
        (32, 64, 128, 256),
        torch.nn.Conv3d,
        3,
        (1, 2, 2, 2),
        2,
        3,
        2,
        norm_op=torch.nn.InstanceNorm3d,
        nonlin=torch.nn.LeakyReLU,
    ),
    floats(1, 32, 32, 32),
)
add(
    "dynamic-network-architectures",
    "ResidualEncoderUNet",
    made(
        "dynamic_network_architectures.architectures.unet:ResidualEncoderUNet",
        1,
        4,
        (32, 64, 128, 256),
        torch.nn.Conv3d,
        3,
        (1, 2, 2, 2),
        2,
        3,
        2,
        norm_op=torch.nn.InstanceNorm3d,
        nonlin=torch.nn.LeakyReLU,
    ),
    floats(1, 32, 32, 32),
)
add(
    "neuraloperator",
    "FNO",
    made("neuralop.models:FNO", n_modes=(16, 16), hidden_channels=32, in_channels=1, out_channels=1),
    floats(1, 64, 64),
)

# --- sequence, language, science -------------------------------------------------------------------------------------
add(
    "mambapy",
    "Mamba",
    lambda: import_module("mambapy.mamba").Mamba(import_module("mambapy.mamba").MambaConfig(d_model=64, n_layers=2)),
    floats(64, 64),
)
add(
    "litgpt",
    "GPT (pythia-14m)",
    lambda: import_module("litgpt").GPT(import_module("litgpt").Config.from_name("pythia-14m")),
    ids(128),
)
add(
    "litgpt",
    "GPT (Llama-like)",
    lambda: import_module("litgpt").GPT(import_module("litgpt").Config.from_name("tiny-llama-1.1b", n_layer=4)),
    ids(128),
)
add(
    "litgpt",
    "GPT (Mixtral-like)",
    lambda: import_module("litgpt").GPT(
        import_module("litgpt").Config.from_name(
            "Mixtral-8x7B-v0.1",
            n_layer=1,
            n_embd=256,
            n_head=4,
            n_query_groups=2,
            intermediate_size=512,
            padded_vocab_size=1000,
        )
    ),
    ids(64),
)
add("torchscale", "Decoder", lambda: _torchscale("Decoder"), ids(64))
add("torchscale", "RetNet", lambda: _torchscale("RetNetDecoder"), ids(64))


def _torchscale(kind: str) -> Any:
    config = import_module("torchscale.architecture.config")
    if kind == "Decoder":
        made_of = config.DecoderConfig(
            vocab_size=1000,
            decoder_embed_dim=128,
            decoder_ffn_embed_dim=256,
            decoder_attention_heads=4,
            decoder_layers=2,
        )
        embed = torch.nn.Embedding(1000, 128)
        return import_module("torchscale.architecture.decoder").Decoder(made_of, embed_tokens=embed)
    made_of = config.RetNetConfig(
        vocab_size=1000,
        decoder_embed_dim=128,
        decoder_value_embed_dim=256,
        decoder_ffn_embed_dim=256,
        decoder_retention_heads=4,
        decoder_layers=2,
    )
    return import_module("torchscale.architecture.retnet").RetNetDecoder(
        made_of, embed_tokens=torch.nn.Embedding(1000, 128)
    )


def _ode() -> Any:
    odeint = import_module("torchdiffeq").odeint

    class Ode(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return odeint(
                lambda _, y: self.net(y), x, torch.tensor([0.0, 1.0]), method="rk4", options={"step_size": 0.25}
            )

    return Ode()


add("torchdiffeq", "neural ODE, rk4", _ode, floats(16))


def _spiking() -> Any:
    snn = import_module("snntorch")

    class Spiking(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(64, 128), torch.nn.Linear(128, 10)
            self.lif1, self.lif2 = snn.Leaky(beta=0.9), snn.Leaky(beta=0.9)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            one, two = self.lif1.init_leaky(), self.lif2.init_leaky()
            found = []
            for _ in range(5):
                spikes, one = self.lif1(self.first(x), one)
                out, two = self.lif2(self.second(spikes), two)
                found.append(out)
            return torch.stack(found)

    return Spiking()


add("snntorch", "leaky network", _spiking, floats(64))


def _flow() -> Any:
    nflows = import_module("nflows.transforms")
    nets = import_module("nflows.nn.nets")
    couplings = [
        nflows.AffineCouplingTransform(torch.arange(16) % 2, lambda i, o: nets.ResidualNet(i, o, hidden_features=64))
        for _ in range(3)
    ]
    return nflows.CompositeTransform([*couplings, nflows.MaskedAffineAutoregressiveTransform(16, 64)])


add("nflows", "coupling and autoregressive flow", _flow, floats(16))
add(
    "e3nn",
    "FullyConnectedTensorProduct",
    made("e3nn.o3:FullyConnectedTensorProduct", "8x0e+8x1o", "1x0e+1x1o", "8x0e+8x1o"),
    lambda n: (torch.rand(n, 32), torch.rand(n, 4)),
)
add("deepctr-torch", "DeepFM", lambda: _ctr("deepfm", "DeepFM"), floats(6))
add("deepctr-torch", "DCN", lambda: _ctr("dcn", "DCN"), floats(6))


def _ctr(module: str, name: str) -> Any:
    inputs = import_module("deepctr_torch.inputs")
    columns = [inputs.SparseFeat(f"s{i}", vocabulary_size=10, embedding_dim=8) for i in range(3)] + [
        inputs.DenseFeat(f"d{i}", 1) for i in range(3)
    ]
    model = getattr(import_module(f"deepctr_torch.models.{module}"), name)
    return model(linear_feature_columns=columns, dnn_feature_columns=columns, device="cpu")


def _chronos() -> Any:
    bolt, transformers = import_module("chronos.chronos_bolt"), import_module("transformers")
    config = transformers.T5Config(
        d_model=128,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        vocab_size=2,
        feed_forward_proj="relu",
        pad_token_id=0,
        decoder_start_token_id=0,
    )
    config.chronos_config = {
        "context_length": 128,
        "prediction_length": 16,
        "input_patch_size": 16,
        "input_patch_stride": 16,
        "quantiles": [0.1, 0.5, 0.9],
        "use_reg_token": True,
    }
    return bolt.ChronosBoltModelForForecasting(config)


add("chronos-forecasting", "Chronos-Bolt", _chronos, lambda n: {"context": torch.rand(n, 128)})


def _gp() -> Any:
    gpytorch = import_module("gpytorch")

    class Deep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(16, 8)
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.kernel(self.net(x)).to_dense()

    return Deep()


add("gpytorch", "deep kernel", _gp, floats(32, 16))


def _einops() -> Any:
    layers = import_module("einops.layers.torch")
    return torch.nn.Sequential(
        layers.Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=8, q=8),
        torch.nn.Linear(192, 64),
        layers.EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=64, d=32),
        layers.Reduce("b t d -> b d", "mean"),
    )


add("einops", "layers", _einops, floats(3, 32, 32))
add(
    "byol-pytorch",
    "ResNet-50 projector",
    lambda: import_module("byol_pytorch").BYOL(
        import_module("torchvision.models").resnet18(), image_size=64, hidden_layer="avgpool"
    ),
    lambda n: {"x": torch.rand(n, 3, 64, 64), "return_embedding": True, "return_projection": False},
)


REASONS = {
    "torch-geometric:GraphUNet": "torch's counter counts a product of sparse matrices as if they were dense",
    "kornia:LoFTR": "the number of matches depends on the images: every candidate is assumed to match",
    "torchao:int8 dynamic activation": "torch's counter does not count aten::_int_mm; 256·512 + 512·128 by hand",
    "deepctr-torch:DCN": "torch's counter leaves out products of two vectors: 2 · 27",
    "neuraloperator:FNO": "a complex product takes four real ones, which torch's counter counts as one: 3 · 589,824",
    "s5-pytorch:S5Block": "a complex product takes four real ones, which torch's counter counts as one: 3 · 33,554,432",
    "local-attention:LocalTransformer": "torch's counter leaves out aten::mv: 524,288",
    "itransformer:iTransformer": "torch's counter leaves out aten::mv: 24,576",
    "mace-torch:MACE": "forces by autograd; counted by torch with gradients on, with e3nn 0.6.0",
    "titans-pytorch:MemoryAsContextTransformer": "torch's counter leaves out aten::mv: 65,536",
    "bs-roformer:BSRoformer": "torch's counter leaves out attention in the fused kernels that the library asks for",
    "bs-roformer:MelBandRoformer": "torch's counter leaves out attention in fused kernels that the library asks for",
    "tab-transformer-pytorch:FTTransformer": "torch's counter leaves out aten::mv: 2,048",
}
"""Why the two counts differ, where they do."""

import wild_models_small  # noqa: E402, F401  # adds its models to those above
import wild_newer  # noqa: E402, F401  # and these
import wild_published  # noqa: E402, F401  # and these
