"""Plans: which GPU fits at which batch, and why not."""
