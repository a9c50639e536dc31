"""The command line: one file per command; words in, text and an exit code out."""
