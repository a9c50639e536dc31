"""`capplan llm`: the commands about serving large language models."""
