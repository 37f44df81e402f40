"""Built things in; what is wrong with them, or differs from the record, out."""
