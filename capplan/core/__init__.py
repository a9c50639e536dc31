"""The arithmetic: pure functions over traces, GPUs and calibrations. No torch, files, clock or print."""
