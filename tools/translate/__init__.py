"""English pages and catalogues in, an edition in another language out."""
