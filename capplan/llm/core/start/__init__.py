"""How long a replica of a language model takes to start."""
