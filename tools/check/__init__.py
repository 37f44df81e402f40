"""What was made in; what is wrong with it, or differs from its record, out."""
