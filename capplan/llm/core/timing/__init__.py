"""Time of one step of a language model: its kernels, collectives, and what the engine adds."""
