"""Repositories of the Hugging Face Hub: configurations and headers alone, never weights, never code."""
