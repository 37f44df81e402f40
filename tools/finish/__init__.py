"""Parts of the Sphinx extension that mend finished HTML and make it light."""
