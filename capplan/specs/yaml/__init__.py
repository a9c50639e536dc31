"""Strict YAML reading with teaching error messages."""
