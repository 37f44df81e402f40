"""The course: exercises, views, the bug museum and questions to answer first."""
