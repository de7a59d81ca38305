#!/usr/bin/env bash
# The GPU table of dev/LOG.md on a machine with stock PyTorch and transformers: no install, no download, under eight minutes.
# SHAPES=1.5b leaves the 7B shape out (it needs 16 GiB); a first look at it all on a CPU: SHAPES=tiny DEVICE=cpu.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-runs}
mkdir -p "$out"
PYTHONPATH=src python3 benchmarks/gpu.py --shapes "${SHAPES:-1.5b,7b}" --device "${DEVICE:-cuda}" \
  --batches "${BATCHES:-1,8,32,64}" --new-tokens "${NEW_TOKENS:-128}" | tee "$out/gpu.md"
