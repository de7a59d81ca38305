"""Everything that only a GPU can tell, as one table. Random weights: no download, no text.

python benchmarks/gpu.py --shapes 1.5b,7b            # on a GPU
python benchmarks/gpu.py --shapes tiny --device cpu  # to see that it runs
"""

import argparse
import time
from collections.abc import Callable, Iterator

import torch
from engine import speed
from transformers import AutoConfig, AutoModelForCausalLM

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.masks import Places, dense_mask, flex_mask
from unmask.core.noise.linear import Linear
from unmask.decode.autoregressive import ar_config
from unmask.train.chat import Sample
from unmask.train.corrupt import noisy_layout
from unmask.train.objective import row_losses
from unmask.train.pack import pack_samples
from unmask.verify.subject import Subject

SHAPES = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512},
    "1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
             "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936},
    "7b": {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
           "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064},
}  # fmt: skip
Row = tuple[str, str]


def main() -> None:
    """Print the table as it grows, so that a run that is cut short has told what it knew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="1.5b,7b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", default="1,8,32,64")
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--levers", default="eager,compiled")
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"# {name}, torch {torch.__version__}\n\n| what | measured |\n|---|---|")
    print_rows("tiny", correctness(device))
    for shape in chosen.shapes.split(","):
        model = make_model(shape, device, torch.bfloat16)
        batches = [int(size) for size in chosen.batches.split(",")]
        print_rows(shape, decoding(model, device, batches, chosen))
        print_rows(shape, training(model, device))
        del model


def print_rows(shape: str, rows: Iterator[Row]) -> None:
    for what, measured in rows:
        print(f"| {shape}: {what} | {measured} |", flush=True)


def make_model(shape: str, device: torch.device, dtype: torch.dtype):
    """Random weights, made where they are used."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("qwen2", max_position_embeddings=4096, **SHAPES[shape])
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval().to(device)


def make_subject(model) -> Subject:
    rows = model.config.vocab_size
    config = DiffusionConfig(
        block_size=32, sub_block_size=8, mask_token_id=rows - 1, embedding_rows=rows
    )
    return Subject(backbone=Backbone(model, mask_token_id=rows - 1), config=config)


def correctness(device: torch.device) -> Iterator[Row]:
    """Small models, where a CPU can say what is right."""
    here = make_subject(make_model("tiny", torch.device("cpu"), torch.float32))
    weights = here.backbone.model.state_dict()
    prompts = here.ragged_prompts()
    wanted = [sequence.tokens for sequence in here.decode(prompts, 40, threshold=0.02)]
    for dtype in (torch.float32, torch.bfloat16):
        model = make_model("tiny", device, dtype)
        model.load_state_dict(weights)
        there = make_subject(model)
        got = [sequence.tokens for sequence in there.decode(prompts, 40, threshold=0.02)]
        same = sum(a == b for one, two in zip(got, wanted, strict=True)
                   for a, b in zip(one, two, strict=True))  # fmt: skip
        yield f"tokens of the CPU in {dtype}", f"{same} of {sum(map(len, wanted))}"
        cold = there.decode(prompts, 40, threshold=0.02, cache="none")
        equal = sum(a.tokens == b for a, b in zip(cold, got, strict=True))
        yield f"cached = recomputed in {dtype}", f"{equal} of {len(got)} answers"
        if device.type != "cuda":
            continue  # torch.compile has tests of its own
        there.backbone.compile()
        for _ in range(2):  # the second time what the first has recorded
            again = there.decode(prompts, 40, threshold=0.02)
        equal = sum(a.tokens == b for a, b in zip(again, got, strict=True))
        yield f"graphs = eager in {dtype}", f"{equal} of {len(got)} answers"
    yield "flex mask = dense mask, hidden states", f"{flex_difference(here, device):.1e}"


def flex_difference(subject: Subject, device: torch.device) -> float:
    """Largest difference between the two attention kernels."""
    count = 128
    index = torch.arange(count, device=device)
    places = Places(*(each[None] for each in (index * 0, index // 32, index * 0, index)))
    backbone = make_subject(make_model("tiny", device, torch.float32)).backbone
    tokens = torch.tensor([subject.tokens(count)], device=device)
    with torch.no_grad():
        dense = backbone.hidden(tokens, index[None], dense_mask(places, places, "block"))
        flex = backbone.hidden(tokens, index[None], flex_mask(places, "block"))
    return float((dense - flex).abs().max())


def decoding(
    model, device: torch.device, batches: list[int], chosen: argparse.Namespace
) -> Iterator[Row]:
    """AR and diffusion at a fixed pace, eager and with graphs; the share of the memory bound."""
    subject = make_subject(model)
    ar = Subject(backbone=subject.backbone, config=ar_config(model.config.vocab_size))
    table = model.get_input_embeddings().weight  # one row of it is read, unless it is the head too
    bytes_read = sum(
        weight.numel() * weight.element_size()
        for weight in model.parameters()
        if weight is not table or model.config.tie_word_embeddings
    )
    for lever in chosen.levers.split(","):
        if lever == "compiled":
            subject.backbone.compile()
        for batch in batches:
            prompts = [subject.tokens(64 + row % 32, salt=row) for row in range(batch)]
            plain = speed(ar, prompts, chosen.new_tokens)
            fast = speed(subject, prompts, chosen.new_tokens, cache="dual", strategy="topk", k=4)
            yield (f"{lever}, batch {batch}, AR / diffusion k=4",
                   f"{plain:.0f} / {fast:.0f} tokens/s, {fast / plain:.2f}×")  # fmt: skip
            if batch == 1 and device.type == "cuda":
                share = plain * bytes_read / copy_bandwidth(device)
                yield f"{lever}, AR forward, share of memory bandwidth", f"{share:.0%}"


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second that a large copy reads and writes."""
    source = torch.empty(2**30, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / seconds(lambda: target.copy_(source), device)


def training(model, device: torch.device) -> Iterator[Row]:
    """Forward and backward of one packed row in the 3L layout."""
    if sum(weight.numel() for weight in model.parameters()) > 3e9:
        yield "training step", "skipped: needs more than one GPU"
        return
    model.train()
    subject = make_subject(model)
    count = 10 if device.type == "cuda" else 2
    samples = [Sample(subject.tokens(96, salt=n), [i >= 32 for i in range(96)])
               for n in range(count)]  # fmt: skip
    row = noisy_layout(
        pack_samples(samples), block_size=32, mask_token_id=subject.config.mask_token_id,
        token_shift=True, noise=Linear(), generator=torch.Generator().manual_seed(0),
    ).to(device)  # fmt: skip

    def step() -> None:
        denoise, _ = row_losses(subject.backbone, row, "block", with_next_token=False)
        (denoise / row.targets).backward()
        model.zero_grad()

    spent = seconds(step, device)
    yield "training, 3L layout", f"{row.targets / spent:.0f} supervised tokens/s"
    model.eval()


def seconds(call: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Mean seconds of a call, after one that does not count."""
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeats


if __name__ == "__main__":
    main()
