"""Cost of renting and owning, options, recommendation."""
