"""Answers as text tables, Markdown and CSV."""
