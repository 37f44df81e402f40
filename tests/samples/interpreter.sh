#!/bin/sh
echo "$*" >> calls
case "$*" in
  *version_info*) echo VERSION ;;
  --version) echo Python VERSION ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "-m pip config list") echo "$SETTINGS" ;;
  *"-r tools/model.txt") test -z "$NO_MODEL" ;;
  "-m pip install"*) echo "$PIP_SAYS"; test -z "$PIP_SAYS" ;;
  "-m uv pip install"*) test -z "$UV_FAILS" ;;
esac
