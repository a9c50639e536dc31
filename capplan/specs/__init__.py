"""The only door to YAML: GPU specs, prices, calibrations and loads, read strictly."""

from capplan.specs.gpus.load import Gpus, load_gpus

__all__ = ["Gpus", "load_gpus"]
