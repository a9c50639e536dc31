"""Networks of other libraries that engines were timed on, as models to open: `engine_networks.py:yolov8n`."""

from torch import nn


def yolov8(size: str) -> nn.Module:
    """Build a detector of Ultralytics as its export does: convolutions and norms joined, and no search for boxes."""
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel(f"yolov8{size}.yaml", verbose=False)
    model.fuse(verbose=False)
    model.model[-1].export = True
    return model.eval()


def yolov8n() -> nn.Module:
    return yolov8("n")


def yolov8s() -> nn.Module:
    return yolov8("s")


def yolov8m() -> nn.Module:
    return yolov8("m")


def yolov8l() -> nn.Module:
    return yolov8("l")


def yolov8x() -> nn.Module:
    return yolov8("x")
