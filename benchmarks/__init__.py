"""What is fast, measured side by side with the alternatives. See book/speed.md."""

import warnings

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    import x_transformers  # noqa: F401  # its import calls what torch has deprecated
