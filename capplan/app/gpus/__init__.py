"""GPUs and their prices as a question names them: found, filtered, priced, listed and imported."""
