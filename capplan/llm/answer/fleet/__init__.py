"""Search deployments of a language model, and what follows from the chosen one: money, hand-over, rescues."""
