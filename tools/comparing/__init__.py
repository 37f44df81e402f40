"""What differs between two runs: numbers, pictures, whole outputs."""
