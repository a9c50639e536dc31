"""Serving of language models: the arithmetic (`core`), what is read from files (`read`), and the answers (`answer`)."""
