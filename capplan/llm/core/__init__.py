"""Large language models: their layers, weights, KV cache and serving memory."""
