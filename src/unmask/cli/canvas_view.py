"""The answer being unmasked, as rich text."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from unmask.decode.engine import Snapshot

MASK = "░"
SHADES = ((0.5, "red"), (0.8, "yellow"), (0.95, "green"), (2.0, "bright_green"))
"""Colour of a decided token by its confidence: below the first number, the first colour."""


def draw_canvas(canvas: "Snapshot", tokenizer: Any) -> "Text":
    """Committed tokens plain, decided ones shaded by confidence, hidden ones as blocks."""
    from rich.text import Text

    text = Text(tokenizer.decode(canvas.tokens[: canvas.committed], skip_special_tokens=True))
    open_block = zip(canvas.tokens, canvas.is_masked, canvas.confidence, strict=True)
    for token, is_masked, confidence in list(open_block)[canvas.committed :]:
        if is_masked:
            text.append(MASK, style="dim")
        else:
            style = next(style for limit, style in SHADES if confidence < limit)
            text.append(tokenizer.decode([token], skip_special_tokens=True), style=style)
    return text
