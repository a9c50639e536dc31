"""Times of serving language models: kernels, steps, engines, and what follows from them for requests."""
