"""The verbs of `capplan llm train`: memory, estimate, plan and validate."""
