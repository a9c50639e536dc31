"""Readers of measured latency rows (CSV and JSON)."""
