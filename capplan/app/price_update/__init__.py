"""Fetch current prices from where providers and catalogues publish them."""
