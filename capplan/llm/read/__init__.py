"""Where the facts of language models come from: configurations, file headers, the catalogue."""
