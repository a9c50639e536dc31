"""Pipelines as YAML: their files, and what was fitted of them."""
