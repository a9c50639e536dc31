"""Find the model that the user's words name, and its inputs."""
