"""GPU specifications: types, attributes, queries."""
