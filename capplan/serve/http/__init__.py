"""HTTP: routes, checks of requests, problem documents, logs and metrics."""
