"""What may be asked over HTTP: types of requests, and how they are read from JSON and from query strings."""
