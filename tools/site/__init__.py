"""Chapters and their notebooks in, the pages of the site out; nothing is executed."""
