"""Traces kept from one command to the next, and the files that make them stale."""
