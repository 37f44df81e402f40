"""What copies of the notebooks need: links that hold, a set-up cell, solutions."""
