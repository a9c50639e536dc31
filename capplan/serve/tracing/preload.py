"""Load the model libraries once, in the process from which those that trace are forked."""

from capplan.probe.tracing_process import load_libraries

load_libraries()
