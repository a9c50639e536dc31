"""Answer assistants over the Model Context Protocol; the only package that imports its SDK."""
