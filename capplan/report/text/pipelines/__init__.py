"""Answers about pipelines as text: plans in the words of what is made, memory, and errors."""
