"""What int8 costs: next-token loss on worked solutions, and how often the top token stays.

python benchmarks/int8_loss.py runs/ar [--problems 16]
"""

import argparse

import torch
from torch import Tensor

from unmask.decode.model import Quantize, load
from unmask.train.chat import encode_row
from unmask.train.sources.gym import GymSource

DATA = "gym:gsm_symbolic"


def main() -> None:
    """Score the same tokens twice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--problems", type=int, default=16)
    chosen = parser.parse_args()
    loss, top = score(chosen.model, None, chosen.problems)
    loss_int8, top_int8 = score(chosen.model, "int8", chosen.problems)
    agree = float((top == top_int8).float().mean())
    print(f"{len(top)} tokens: loss {loss:.3f} in float32, {loss_int8:.3f} in int8; "
          f"the top token agrees at {agree:.1%}")  # fmt: skip


@torch.inference_mode()
def score(name: str, quantize: Quantize | None, problems: int) -> tuple[float, Tensor]:
    """Mean loss of the targets of held-out samples, causally, and the top token at each."""
    model = load(name, quantize=quantize)
    gym = GymSource(DATA, seed=0, evaluation=True)
    losses, top = [], []
    for index in range(problems):
        sample = encode_row(gym.row(index), model.tokenizer, model.checkpoint.end_token_ids())
        tokens = torch.tensor(sample.ids)
        causal = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
        places = torch.arange(len(tokens))
        hidden = model.backbone.hidden(tokens[None], places[None], causal[None, None])[0]
        targets = torch.tensor(sample.is_target).nonzero()[:, 0]
        logits = model.backbone.logits(hidden[targets - 1])
        losses.append(torch.nn.functional.cross_entropy(logits, tokens[targets], reduction="none"))
        top.append(logits.argmax(-1))
    return float(torch.cat(losses).mean()), torch.cat(top)


if __name__ == "__main__":
    main()
