"""The page about served language models: times over concurrency, a search for deployments, and their explanation."""
