"""The processes that answer questions, and the pool that hands them out."""
