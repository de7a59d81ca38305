"""AR mode: the same engine with blocks of one token, strictly causal.

The commit forward of a token yields the state from which the next one is read, so nothing is ever
denoised: one forward a token, as in any AR decoder.
"""

from unmask.config import DiffusionConfig


def ar_config(rows: int, mask_token_id: int | None = None) -> DiffusionConfig:
    """How any causal language model is decoded one token after another.

    Args:
        rows: embedding rows of the model.
        mask_token_id: fills the canvas; where None, a token that the model never gets to see.
    """
    return DiffusionConfig(
        context="causal",
        block_size=1,
        sub_block_size=1,
        token_shift=True,
        mask_token_id=rows - 1 if mask_token_id is None else mask_token_id,
        embedding_rows=rows,
    )
