"""`unmask verify`: the invariants, on the user's own checkpoint."""

import dataclasses

import typer

from unmask.cli import options
from unmask.cli.console import Output, load_model


def command(
    model: options.ModelArgument,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    seed: options.Seed = 0,
) -> None:
    """Check that MODEL decodes as it was trained; exit code 1 if a promise is broken."""
    output = Output(as_json=json, quiet=quiet)
    loaded = load_model(model, output, device=device, dtype=dtype)
    with output.bar("verifying") as show:
        from unmask.verify.suite import count_checks, run_checks

        checks, total = [], count_checks(loaded.config)
        for check in run_checks(loaded.backbone, loaded.config, seed=seed):
            checks.append(check)
            show(check.promise, len(checks) / total)
    holds = all(check.holds for check in checks)
    if json:
        rows = [{**dataclasses.asdict(check), "holds": check.holds} for check in checks]
        output.emit({"model": model, "holds": holds, "checks": rows})
    else:
        from rich.table import Table

        table = Table("", "promise", "held against", "difference", "control: must differ", "by")
        for check in checks:
            table.add_row(
                "[green]holds[/green]" if check.holds else "[red]BROKEN[/red]",
                check.promise, check.oracle, f"{check.difference:.1e} ≤ {check.tolerance:.0e}",
                check.control, f"{check.control_difference:.2g}",
            )  # fmt: skip
        output.data.print(table)
        if loaded.config is None:
            output.words.print(f"{model} is not adapted: AR checks only")
    if not holds:
        raise typer.Exit(1)
