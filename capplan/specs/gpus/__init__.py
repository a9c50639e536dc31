"""GPU spec sheets: fields, rules, loading, schema, validation."""
