"""Video: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture

ARCHITECTURES = {
    "pe_video": Architecture(image_side=336),
    "pe_video_encoder": Architecture(image_side=336),
    "timesformer": Architecture(takes_clips=True),
    "tvp": Architecture(images=16),
    "videomae": Architecture(takes_clips=True),
    "videoprism": Architecture(takes_clips=True),
    "videoprism_vision_model": Architecture(takes_clips=True),
    "vivit": Architecture(takes_clips=True),
    "vjepa2": Architecture(takes_clips=True),
    "xclip": Architecture(takes_clips=True),
}
