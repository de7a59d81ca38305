"""Options that several commands share, spelt once."""

from typing import Annotated

import typer

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Folder, hub id, or alias such as smollm2.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No words and no bars on stderr.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16; auto fits the device.")]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn at random.")]

Mode = Annotated[str, typer.Option(help="diffusion or ar.")]
Strategy = Annotated[str, typer.Option(help="Which proposed tokens a step accepts.")]
Threshold = Annotated[
    float, typer.Option(help="Accept tokens more probable than this; 1 = one a step.")
]
Cache = Annotated[str, typer.Option(help="none, block (exact) or dual (sub-blocks, approximate).")]
SubBlockSize = Annotated[
    int | None, typer.Option(help="Tokens decided before moving right; the checkpoint's if unset.")
]
MaxNewTokens = Annotated[int, typer.Option(help="Length of the answer at most.")]
Temperature = Annotated[float, typer.Option(help="0 takes the most probable token.")]
TopP = Annotated[float, typer.Option(help="Share of probability that is drawn from.")]
