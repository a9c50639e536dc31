"""YAML files (GPU specs, prices, calibrations) read strictly into types."""
