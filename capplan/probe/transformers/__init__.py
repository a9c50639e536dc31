"""Inputs and small configurations of transformers architectures."""
