"""Notebooks and pages in; copies for Colab and students, and the PDF, out."""
