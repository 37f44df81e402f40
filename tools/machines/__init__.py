"""Runs as on other machines: how they differ, and the pages that tell of them."""
