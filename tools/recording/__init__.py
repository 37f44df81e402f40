"""Records: which are stale, how they are executed, and what they must meet."""
