"""AR speed of llama.cpp on the same weights and threads, the yardstick outside Python.

pip install llama-cpp-python        # builds in some minutes
python benchmarks/llama.py model-Q4_1.gguf [model-Q8_0.gguf …] [--threads 2] [--new-tokens 64]
"""

import argparse
import time

import llama_cpp

PROMPT = 128
"""Tokens before the clock starts."""


def main() -> None:
    """Print tokens/s of each file, best of three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new-tokens", type=int, default=64)
    chosen = parser.parse_args()
    for file in chosen.files:
        model = llama_cpp.Llama(
            file, n_ctx=PROMPT + chosen.new_tokens + 8, n_threads=chosen.threads,
            n_threads_batch=chosen.threads, verbose=False,
        )  # fmt: skip
        speeds = [speed(model, chosen.new_tokens) for _ in range(3)]
        print(f"{file}: {max(speeds):.1f} tokens/s")


def speed(model: llama_cpp.Llama, new_tokens: int) -> float:
    """Tokens a second of greedy decoding behind a prompt."""
    model.reset()
    model.eval(list(range(100, 100 + PROMPT)))
    started = time.perf_counter()
    for _ in range(new_tokens):
        model.eval([model.sample(temp=0)])
    return new_tokens / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
