"""The pages of the site as one document for paper: made, printed and checked."""
