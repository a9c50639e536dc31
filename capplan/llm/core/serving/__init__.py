"""Times of served language models: what clients see, the fit of the constants, and how wrong predictions are."""
