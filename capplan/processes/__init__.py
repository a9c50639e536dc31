"""Processes that work for this one: started, given tasks, watched and ended in one place."""
