"""Use cases of pipelines: found by their words, their parts traced, answered as one."""
