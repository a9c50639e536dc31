"""Every question that capplan answers, stated once: its fields, its answer, and how the answer is shown.

The doors (command line, Python, HTTP, configuration file, sweep file, page) are derived from these statements.
"""
