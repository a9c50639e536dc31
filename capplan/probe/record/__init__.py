"""Record the operators that a forward pass dispatches, with storages and known values."""
