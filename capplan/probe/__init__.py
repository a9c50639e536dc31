"""Everything that needs torch: finding, building, tracing, counting and timing models."""
