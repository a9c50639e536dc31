"""The questions about serving large language models, each stated once, as those of `capplan.verbs`."""
