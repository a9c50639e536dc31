"""Answers as JSON documents."""
