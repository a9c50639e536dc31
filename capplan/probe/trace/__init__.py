"""Run a model on meta tensors and record its operators into a trace."""
