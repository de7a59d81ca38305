#!/bin/sh
# Lossless decoding with what ships: AR mode, speculative mode and transformers.generate on the same
# held-out problems. Writes OUT/lossless.json and .txt. About ten minutes on two cores.
#
#   benchmarks/lossless.sh OUT [PROBLEMS]
set -eu
out=${1:?usage: benchmarks/lossless.sh OUT [PROBLEMS]}
problems=${2:-50}
mkdir -p "$out"
data="gym:word_sequence_reversal?min_words=4&max_words=12"
unmask bench smollm2-gym --data "$data" --limit "$problems" --modes ar,speculative,transformers \
    --ar-model smollm2-gym-ar --batch-sizes 1,8 --max-new-tokens 96 --repeats 1 \
    --out "$out/lossless.json" | tee "$out/lossless.txt"
