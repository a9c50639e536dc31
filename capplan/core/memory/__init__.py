"""Peak memory: allocator replay, schedule, fit, advice."""
