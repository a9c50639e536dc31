"""Object detection: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture

ARCHITECTURES = {
    "conditional_detr": Architecture(image_side=800),
    "d_fine": Architecture(image_side=640),
    "dab-detr": Architecture(image_side=800),
    "deformable_detr": Architecture(image_side=800),
    "deimv2": Architecture(image_side=640),
    "detr": Architecture(image_side=800),
    "grounding-dino": Architecture(image_side=800),
    "lw_detr": Architecture(image_side=640, completions={"projector_scale_factors": [1.0]}),
    "mm-grounding-dino": Architecture(image_side=800),
    "omdet-turbo": Architecture(image_side=640),
    "rf_detr": Architecture(image_side=560),
    "rt_detr": Architecture(image_side=640),
    "rt_detr_v2": Architecture(image_side=640),
    "table-transformer": Architecture(image_side=800),
}
