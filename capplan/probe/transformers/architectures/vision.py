"""Images: segmentation, depth, matching: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture
from capplan.probe.transformers.completions import value_of

ARCHITECTURES = {
    "depth_pro": Architecture(image_side=1536),
    "edgetam": Architecture(image_side=1024, completions={"vision_config.backbone_config.architecture": "repvit_m1"}),
    "edgetam_vision_model": Architecture(image_side=1024),
    "efficientloftr": Architecture(image_side=480, images=2),
    "glpn": Architecture(image_side=480),
    "lightglue": Architecture(image_side=480, images=2),
    "mask2former": Architecture(image_side=384),
    "maskformer": Architecture(image_side=384),
    "oneformer": Architecture(image_side=512),
    "sam2": Architecture(image_side=1024),
    "sam2_vision_model": Architecture(image_side=1024),
    "sam3": Architecture(inputs=("pixel_values", "input_ids"), image_side=1008),
    "sam3_tracker": Architecture(image_side=1008),
    "segformer": Architecture(image_side=512),
    "superglue": Architecture(image_side=480, images=2),
    "superpoint": Architecture(image_side=480),
    "upernet": Architecture(image_side=512),
    "vitmatte": Architecture(
        image_side=512,
        completions={
            "fusion_hidden_sizes": [256, 128, 64, 32],
            "hidden_size": value_of("backbone_config.hidden_size"),
            "backbone_config.num_channels": 4,
            "backbone_config.image_size": 512,
        },
    ),
}
