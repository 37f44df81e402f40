"""What teaches: exercises, views, the bug museum and questions before an answer."""
