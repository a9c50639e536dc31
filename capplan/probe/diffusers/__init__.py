"""diffusers: the configurations of pipelines, and modules built from them without weights."""
