"""Answering questions from traces, in processes that load neither torch nor a model library."""
