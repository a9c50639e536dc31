"""The trace of a model: types, file format, anonymisation."""
