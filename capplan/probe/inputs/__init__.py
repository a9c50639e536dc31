"""The grammar of model inputs, and the tensors made from it."""
