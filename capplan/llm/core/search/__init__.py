"""The search for the deployments of a language model that carry a load: judged one by one, simulated, ranked."""
