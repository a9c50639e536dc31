"""Models of recent libraries beside `wild_models.py`: weather, biology, audio, video, 3D, robotics, state spaces."""

from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import torch
from wild_models import Published, add, floats, ids, made


def _aurora_batch(n: int) -> Any:
    """Return the batch of Aurora's own example: two steps of four variables at the surface and five at four levels."""
    batch, metadata = import_module("aurora").Batch, import_module("aurora").Metadata
    return (
        batch(
            surf_vars={name: torch.randn(n, 2, 17, 32) for name in ("2t", "10u", "10v", "msl")},
            static_vars={name: torch.randn(17, 32) for name in ("lsm", "z", "slt")},
            atmos_vars={name: torch.randn(n, 2, 4, 17, 32) for name in ("z", "u", "v", "t", "q")},
            metadata=metadata(
                lat=torch.linspace(90, -90, 17),
                lon=torch.linspace(0, 360, 33)[:-1],
                time=(datetime(2020, 6, 1, 12, 0, tzinfo=UTC),) * n,
                atmos_levels=(100, 250, 500, 850),
            ),
        ),
    )


add(
    "microsoft-aurora", "Aurora small", made("aurora:AuroraSmallPretrained"), _aurora_batch,
    published=Published(source="Bodnar et al., Nature 641, 2025, the smallest size (from memory)", millions="113"),
)  # fmt: skip
add(
    "alphagenome-pytorch", "AlphaGenome without heads", made("alphagenome_pytorch:AlphaGenome"),
    lambda n: {"seq": torch.randint(0, 4, (n, 8192)), "organism_index": 0},
)  # fmt: skip
add("s5-pytorch", "S5Block", made("s5:S5Block", 256, 256, False), floats(256, 256))
add(
    "se3-transformer-pytorch", "SE3Transformer",
    made("se3_transformer_pytorch:SE3Transformer", dim=32, heads=4, depth=2, dim_head=8, num_degrees=2,
         valid_radius=10),
    lambda n: (torch.randn(n, 32, 32), torch.randn(n, 32, 3), torch.ones(n, 32).bool()),
)  # fmt: skip
add(
    "equiformer-pytorch", "Equiformer",
    made("equiformer_pytorch:Equiformer", num_tokens=24, dim=(8, 4), dim_head=(8, 4), heads=(2, 1), num_degrees=2,
         depth=2, num_neighbors=8, reduce_dim_out=True),
    lambda n: (torch.randint(0, 24, (n, 32)), torch.randn(n, 32, 3), torch.ones(n, 32).bool()),
)  # fmt: skip
add(
    "video-diffusion-pytorch", "Unet3D", made("video_diffusion_pytorch:Unet3D", dim=32, dim_mults=(1, 2, 4)),
    lambda n: {"x": torch.randn(n, 3, 4, 32, 32), "time": torch.randint(0, 1000, (n,))},
)  # fmt: skip
add(
    "tabm", "TabM", made("tabm:TabM.make", n_num_features=16, cat_cardinalities=[4, 7], d_out=1),
    lambda n: {"x_num": torch.rand(n, 16), "x_cat": torch.randint(0, 4, (n, 2))},
)  # fmt: skip


def _vocos() -> Any:
    models, heads = import_module("vocos.models"), import_module("vocos.heads")
    backbone = models.VocosBackbone(input_channels=100, dim=512, intermediate_dim=1536, num_layers=8)
    return torch.nn.Sequential(backbone, heads.ISTFTHead(dim=512, n_fft=1024, hop_length=256))


add(
    "vocos", "mel 24 kHz", _vocos, floats(100, 94),
    published=Published(source="gemelo-ai/vocos, README, charactr/vocos-mel-24khz: 13.5M", millions="13.5"),
)  # fmt: skip
add(
    "gateloop-transformer", "Transformer",
    made("gateloop_transformer:Transformer", num_tokens=256, dim=128, depth=4, use_gate_looped_attn=True),
    ids(128, 256),
)  # fmt: skip
add(
    "robotic-transformer-pytorch", "MaxViT of RT-1",
    made("robotic_transformer_pytorch.robotic_transformer_pytorch:MaxViT", num_classes=1000, dim_conv_stem=64, dim=96,
         dim_head=32, depth=(2, 2, 5, 2), window_size=7, mbconv_expansion_rate=4, mbconv_shrinkage_rate=0.25),
    floats(3, 224, 224),
)  # fmt: skip
add(
    "meshgpt-pytorch", "MeshAutoencoder", made("meshgpt_pytorch:MeshAutoencoder", num_discrete_coors=128),
    lambda n: {"vertices": torch.rand(n, 24, 3), "faces": torch.randint(0, 24, (n, 16, 3)), "return_codes": True},
)  # fmt: skip
add(
    "pi-zero-pytorch", "PiZero",
    made("pi_zero_pytorch:PiZero", dim=128, dim_action_input=6, dim_joint_state=12, num_tokens=256, depth=2, heads=4,
         dim_head=32),
    lambda n: {
        "images": torch.randn(n, 16, 128), "token_ids": torch.randint(0, 256, (n, 16)),
        "joint_state": torch.randn(n, 12), "actions": torch.randn(n, 8, 6), "return_actions_flow": True,
        "times": torch.rand(n),
    },
)  # fmt: skip
add(
    "taylor-series-linear-attention", "TaylorSeriesLinearAttn",
    made("taylor_series_linear_attention:TaylorSeriesLinearAttn", dim=128, dim_head=16, heads=8), floats(256, 128),
)  # fmt: skip
add(
    "colt5-attention", "ConditionalRoutedFeedForward",
    made("colt5_attention:ConditionalRoutedFeedForward", 128, num_heavy_tokens=32, light_ff_mult=0.5, heavy_ff_mult=4),
    floats(256, 128),
)  # fmt: skip
