"""What `analyze` prints: modules, operators, dtypes, and other counters."""
