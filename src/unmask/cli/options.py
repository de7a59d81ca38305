"""Options that several commands share, spelt once."""

from typing import Annotated

import typer

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Folder, hub id, or a name such as smollm2 or smollm2-gym."
    ),
]
TrainingData = Annotated[
    str,
    typer.Option(
        help="file.jsonl, file.parquet, hub:OWNER/NAME, or gym:NAME such as gym:gsm_symbolic; "
        "several with commas, NAME*3 for three rows at a turn."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No words and no bars on stderr.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16; auto fits the device.")]
Quantize = Annotated[
    str | None, typer.Option(help="int8 = int8 weights on a CPU: faster, approximate.")
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="Slow to start, then faster: torch.compile on a CPU, CUDA graphs on a GPU.",
    ),
]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn at random.")]

Mode = Annotated[
    str | None,
    typer.Option(
        help="diffusion, ar, or speculative (the tokens of ar, drafted and verified); what the "
        "checkpoint is for if unset."
    ),
]
DraftLength = Annotated[
    int | None,
    typer.Option(help="Tokens to draft at a time; what pays most by measurement if unset."),
]
Strategy = Annotated[
    str,
    typer.Option(
        help="Which tokens a step accepts: threshold, topk, factor, entropy, margin, random, "
        "klass, prophet, slowfast, wino or adablock."
    ),
]
Threshold = Annotated[
    float, typer.Option(help="Accept tokens more probable than this; 1 = one a step.")
]
K = Annotated[int, typer.Option(help="Tokens a step of the strategies topk and random.")]
Factor = Annotated[float, typer.Option(help="Of the strategy factor.")]
Gamma = Annotated[float, typer.Option(help="Nats a step of the strategy entropy may lose.")]
Cache = Annotated[
    str | None,
    typer.Option(
        help="none, block (exact), dual or dual-reference (sub-blocks, approximate); what is exact "
        "and fastest if unset."
    ),
]
FuseCommit = Annotated[
    bool, typer.Option("--fuse-commit", help="Commit a block and begin the next in one forward.")
]
BlockSize = Annotated[
    int | None, typer.Option(help="Tokens denoised together; the checkpoint's if unset.")
]
SubBlockSize = Annotated[
    int | None, typer.Option(help="Tokens decided before moving right; the checkpoint's if unset.")
]
MaxNewTokens = Annotated[int, typer.Option(help="Length of the answer at most.")]
Temperature = Annotated[float, typer.Option(help="0 takes the most probable token.")]
TopP = Annotated[float, typer.Option(help="Share of probability that is drawn from.")]
