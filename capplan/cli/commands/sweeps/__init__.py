"""The commands about sweeps: computing the table, and asking it."""
