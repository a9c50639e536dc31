"""The use cases for Python callers; `capplan` offers their verbs."""
