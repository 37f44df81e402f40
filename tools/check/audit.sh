#!/usr/bin/env bash
# Look for known vulnerabilities in the pinned versions; the report is reports/audit.md.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p reports && rm -f reports/audit.md
.venv/bin/python -m uv tool run --quiet pip-audit@2.10.1 --strict --disable-pip --no-deps \
  --progress-spinner off --requirement requirements.txt \
  --format markdown --output reports/audit.md
status=$?
cat reports/audit.md 2>/dev/null
exit $status
