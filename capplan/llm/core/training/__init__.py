"""The arithmetic of training language models: jobs, their memory, the time of a step, searches, and whole runs."""
