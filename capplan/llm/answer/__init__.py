"""Use cases of language models: what the commands `capplan llm ...` and the Python API call."""
