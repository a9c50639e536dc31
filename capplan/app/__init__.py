"""Use cases: a typed request in, a typed answer out; shared by the command line and the Python API."""
