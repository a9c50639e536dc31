"""Read the headers of weight files: tensors and their sizes, without their data."""
