"""TorchScript archives, read as data: their code is parsed and interpreted here, and torch.jit never loads them."""
