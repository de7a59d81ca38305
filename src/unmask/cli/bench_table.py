"""Operating points as a table."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from unmask.evals.cell import Cell


def bench_table(cells: "list[Cell]") -> "Table":
    """One line per operating point; columns that nobody has anything in are left out."""
    from rich import box
    from rich.table import Table

    rows = [_row(cell) for cell in cells]
    if len({row["model"] for row in rows}) == 1:
        rows = [{**row, "model": ""} for row in rows]
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    headers = [header for header in rows[0] if any(row[header] for row in rows)]
    for header in headers:
        table.add_column(header)
    for row in rows:
        table.add_row(*(row[header] for header in headers))
    return table


def _row(cell: "Cell") -> dict[str, str]:
    from unmask.evals.bench import describe_point

    def times(ratio: float | None) -> str:
        return "" if ratio is None else f"{ratio:.2f}×"

    is_plain = cell.mode == "transformers"
    spread = f" ±{cell.spread / 2:.0%}" if len(cell.seconds) > 1 else ""
    return {
        "point": describe_point(cell),
        "model": Path(cell.model).name,
        "batch": str(cell.batch_size),
        "accuracy": f"{cell.accuracy:.1%} [{100 * cell.low:.0f}, {100 * cell.high:.0f}]",
        "NFE": f"{cell.prefill:.0f}+{cell.denoise:.0f}+{cell.commit:.0f}",
        "TPF": f"{cell.tpf:.2f}",
        "tok/s": f"{cell.tokens_per_s:.1f}{spread}",
        "×AR": times(cell.ratio),
        "×HF": times(cell.ratio_transformers),
        "first s": "" if is_plain else f"{cell.first_token_s:.2f}",
        "drift": "" if cell.drift is None else f"{cell.drift:.1%}",
    }
