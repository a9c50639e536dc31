"""Plan many models on many GPUs, on one machine or on a cluster, and keep and query the table of answers."""
