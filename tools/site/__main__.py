"""`python -m tools.site`: see build.py."""

import sys

from tools.site.build import main

sys.exit(main())
