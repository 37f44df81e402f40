"""From a chapter in MyST to a notebook in plain Markdown."""
