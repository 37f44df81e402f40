"""`python -m tools.record`: see update.py."""

import sys

from tools.record.update import main

sys.exit(main())
