"""`python -m tools.record`: see update.py."""

from tools.record.update import main

raise SystemExit(main())
