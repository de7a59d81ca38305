"""`unmask`: the commands, and the one place where errors become exit codes."""

import sys

import typer

from unmask.cli import (
    adapt,
    average,
    bench,
    chat,
    demo,
    distill,
    generate,
    inspect,
    order,
    plot,
    verify,
)
from unmask.errors import UnmaskError

app = typer.Typer(
    name="unmask",
    help="Turn an autoregressive language model into a diffusion language model, prove it right, "
    "run it fast.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for module in (demo, adapt, average, distill, generate, chat, verify, inspect, bench, order, plot):
    app.command(name=module.__name__.rsplit(".", 1)[-1])(module.command)


def main() -> None:
    """Run a command; an `UnmaskError` is one line on stderr and its exit code."""
    try:
        app()
    except UnmaskError as error:
        print(f"unmask: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
