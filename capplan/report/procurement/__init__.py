"""The procurement report and its six formats."""
