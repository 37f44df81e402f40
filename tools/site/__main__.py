"""`python -m tools.site`: see build.py."""

from tools.site.build import main

raise SystemExit(main())
