"""Parts of the Sphinx extension that mend the written pages and make them light."""
