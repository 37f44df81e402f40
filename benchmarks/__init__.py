"""What is fast, measured side by side with the alternatives. See book/speed.md."""
