"""A pretended GPU, and a look at what stands on it, or on a real one."""
