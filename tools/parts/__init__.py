"""Parts of the Sphinx extension: what it adds to the pages while they are made."""
