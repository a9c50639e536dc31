"""Declarations of transformers architectures, a module per family."""
