"""Models whose makers print their parameters or multiply-accumulates, beside `wild_models.py`.

What a maker prints as FLOPs of a network is one for a multiply-accumulate in all of these tables.
"""

from typing import Any

import torch
from wild_models import Published, add, floats, ids, made

VIDEO = "facebookresearch/pytorchvideo, docs/source/model_zoo.md, Kinetics-400"
for _name, _frames, _side, _parameters, _macs in (
    ("c2d_r50", 8, 256, "24.33", "25.89"), ("i3d_r50", 8, 256, "28.04", "37.53"),
    ("slow_r50", 8, 256, "32.45", "54.52"), ("csn_r101", 32, 256, "22.21", "75.62"),
    ("r2plus1d_r50", 16, 256, "28.11", "76.45"), ("x3d_xs", 4, 182, "3.79", "0.91"),
    ("x3d_s", 13, 182, "3.79", "2.96"), ("x3d_m", 16, 256, "3.79", "6.72"),
):  # fmt: skip
    add(
        "pytorchvideo", _name, made(f"pytorchvideo.models.hub:{_name}", pretrained=False),
        floats(3, _frames, _side, _side), published=Published(millions=_parameters, gmacs=_macs, source=VIDEO),
    )  # fmt: skip
for _name, _parameters, _macs in (("slowfast_r50", "34.57", "65.71"), ("slowfast_r101", "62.83", "127.20")):
    add(
        "pytorchvideo", _name, made(f"pytorchvideo.models.hub:{_name}", pretrained=False),
        lambda n: ([torch.rand(n, 3, 8, 256, 256), torch.rand(n, 3, 32, 256, 256)],),
        published=Published(millions=_parameters, gmacs=_macs, source=VIDEO),
    )  # fmt: skip
for _name, _frames, _side, _parameters, _macs in (
    ("x3d_xs", 4, 160, "3.8", "0.60"), ("x3d_s", 13, 160, "3.8", "1.96"), ("x3d_m", 16, 224, "3.8", "4.73"),
    ("x3d_l", 16, 312, "6.2", "18.37"),
):  # fmt: skip
    add(
        "pytorchvideo", f"{_name} at {_side}", made(f"pytorchvideo.models.hub:{_name}", pretrained=False),
        floats(3, _frames, _side, _side),
        published=Published(millions=_parameters, gmacs=_macs, source="facebookresearch/SlowFast, MODEL_ZOO.md, X3D"),
    )  # fmt: skip

_SR: dict[str, Any] = {
    "img_size": 64, "in_chans": 3, "embed_dim": 180, "num_heads": [6] * 6, "depth": [6] * 6, "qkv_bias": True,
    "upscale": 4, "img_range": 1.0, "resi_connection": "1conv", "upsampler": "pixelshuffle",
}  # fmt: skip
for _name, _split, _factor, _parameters, _macs in (
    ("DAT-S", [8, 16], 2, "11.21", "203.3"), ("DAT", [8, 32], 4, "14.80", "275.8"),
    ("DAT-2", [8, 32], 2, "11.21", "216.93"),
):  # fmt: skip
    add(
        "spandrel", _name,
        made("spandrel.architectures.DAT:DAT", split_size=_split, expansion_factor=_factor, **_SR), floats(3, 128, 128),
        published=Published(millions=_parameters, gmacs=_macs, source="zhengchen1999/DAT, README.md, 128 x 128"),
    )  # fmt: skip


def _detector(name: str) -> Any:
    import rfdetr

    return getattr(rfdetr, name)(pretrain_weights=None).model.model


for _name, _side, _parameters in (("Nano", 384, "30.5"), ("Small", 512, "32.1"), ("Medium", 576, "33.7")):
    add(
        "rfdetr", _name, lambda name=f"RFDETR{_name}": _detector(name), floats(3, _side, _side),  # type: ignore[misc]
        published=Published(millions=_parameters, source="roboflow/rf-detr, README.md, COCO"),
    )  # fmt: skip

for _name, _width, _layers, _heads, _parameters in (
    ("esm2_t6_8M", 320, 6, 20, "8"), ("esm2_t12_35M", 480, 12, 20, "35"), ("esm2_t30_150M", 640, 30, 20, "150"),
    ("esm2_t33_650M", 1280, 33, 20, "650"), ("esm2_t36_3B", 2560, 36, 40, "3000"),
):  # fmt: skip
    add(
        "fair-esm", _name,
        made("esm.model.esm2:ESM2", num_layers=_layers, embed_dim=_width, attention_heads=_heads), ids(256, 30),
        published=Published(millions=_parameters, source="facebookresearch/esm, the model's name"),
    )  # fmt: skip


def _borzoi() -> Any:
    from borzoi_pytorch import Borzoi
    from borzoi_pytorch.config_borzoi import BorzoiConfig

    return Borzoi(BorzoiConfig())


add(
    "borzoi-pytorch", "Borzoi", _borzoi, floats(4, 524288),
    published=Published(millions="186", source="Genentech/borzoi-model, README.md"),
)  # fmt: skip
