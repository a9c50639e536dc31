"""What foreign code sees of the machine: its network, its threads, its GPU."""
