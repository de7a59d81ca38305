#!/usr/bin/env bash
# The figures of dev/LOG.md, "the spine": AR twin, block adaptation from it, and both on held-out problems.
# Two CPU cores: about eight hours, six of them the benchmark (LIMIT=16 for a first look). Run nothing else beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-runs/spine}
data=gym:gsm_symbolic

unmask adapt smollm2 --data $data --out "$runs/ar" --recipe ar --steps 77 \
  --set learning_rate=5e-4 --set rows_per_step=2
unmask adapt "$runs/ar" --data $data --out "$runs/block" --minutes 75 \
  --set learning_rate=5e-4 --set rows_per_step=2
unmask verify "$runs/block"
unmask bench "$runs/block" --ar-model "$runs/ar" --data $data --limit "${LIMIT:-200}" \
  --thresholds 1.0,0.95,0.9,0.8 --batch-sizes 1,4 --cache dual --max-new-tokens 192 --out "$runs/bench.json"
