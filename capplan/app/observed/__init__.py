"""Loads of services that run: read from request logs and from Prometheus, and written as load files."""
