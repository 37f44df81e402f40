"""The command ``python -m attention_lib.export``."""

import sys

from attention_lib.export.onnx import main

if __name__ == "__main__":
    sys.exit(main())
