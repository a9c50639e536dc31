"""Answers about language models as JSON documents."""
