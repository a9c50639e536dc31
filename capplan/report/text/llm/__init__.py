"""Text of answers about language models."""
