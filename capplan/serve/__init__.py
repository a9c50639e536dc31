"""The HTTP service: a JSON API and a page that answer what the command line answers."""
