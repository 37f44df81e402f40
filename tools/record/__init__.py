"""Chapters in, notebooks with their outputs out: what is stale is executed, once."""
