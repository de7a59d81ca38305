"""`Backbone`: the one place that calls a Hugging Face model. Knows no block, no canvas, no text.

Everything above it sees hidden states and logits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import DynamicCache

from unmask.core import attention
from unmask.core.cache import BlockCache
from unmask.core.compiled import compile_layers
from unmask.core.denoiser import Gate
from unmask.core.graphs import WINDOW_STEP, Graphs
from unmask.core.linear import plain_linear
from unmask.errors import ModelError


class Backbone:
    """A causal language model with its attention mask in our hands.

    Args:
        model: any `AutoModelForCausalLM`; its attention function is set to ours.
        mask_token_id: never predicted; None for a model that is not adapted.
        gate: of the model's denoiser, if it has one.

    Raises:
        ModelError: the model is not known to be computed rightly this way.
    """

    def __init__(
        self, model: Any, *, mask_token_id: int | None = None, gate: Gate | None = None
    ) -> None:
        self.model = model
        self.mask_token_id = mask_token_id
        self.gate = gate or Gate()
        self.decoder = model.get_decoder()
        self.head = model.get_output_embeddings()
        self.logit_scale = 1.0
        self._is_compiled = False
        self._graphs: Graphs | None = None
        _check_rotary(model)
        model.set_attn_implementation(attention.NAME)
        self._check_against_stock()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """What hidden states are computed in."""
        return self.model.dtype  # type: ignore[no-any-return]

    @property
    def max_positions(self) -> int:
        """Longest sequence the model can hold, its sliding window included."""
        settings = self.model.config
        windows = [settings.max_position_embeddings, settings.to_dict().get("sliding_window")]
        return min(int(window) for window in windows if window)

    @property
    def window_step(self) -> int:
        """What the number of keys of a cached forward should be a multiple of."""
        return 1 if self._graphs is None else WINDOW_STEP

    def new_cache(self, rows: int, max_len: int, borrower: object | None = None) -> BlockCache:
        """A cache for this model; it may be lent to another once `borrower` is gone."""
        make = partial(BlockCache, self.model.config.num_hidden_layers)
        if self._graphs is None or borrower is None:
            return make(rows, max_len)
        return self._graphs.lend(borrower, rows, max_len, make)

    def hidden(
        self,
        tokens_BQ: Tensor,
        positions_BQ: Tensor,
        mask: Tensor | BlockMask | None,
        cache: BlockCache | DynamicCache | None = None,
        *,
        masks: int = 0,
    ) -> Tensor:
        """Final hidden states (B, Q, E), after the last norm.

        Args:
            tokens_BQ: int64 token ids.
            positions_BQ: int64 positions for the rotary embedding.
            mask: (B, 1, Q, K) bool or a `BlockMask`; None = every query sees every key.
            cache: keys and values go where `BlockCache.aim` said, or behind those that a
                `DynamicCache` has; None = no cache.
            masks: how many of the last queries are masks, for a denoiser to act on.
        """
        if self._is_compiled and isinstance(cache, BlockCache):
            if mask is None:  # a mask of ones is cheaper than another compilation
                mask = torch.ones(*tokens_BQ.shape, cache.window, dtype=torch.bool)[:, None]
                mask = mask.to(self.device)
            if self._graphs is not None and isinstance(mask, Tensor):
                return self._graphs(tokens_BQ, positions_BQ, mask, cache, masks)
        return self._run(tokens_BQ, positions_BQ, mask, cache, masks)

    def _run(
        self, tokens_BQ: Tensor, positions_BQ: Tensor, mask: Tensor | BlockMask | None,
        cache: BlockCache | DynamicCache | None, masks: int,
    ) -> Tensor:  # fmt: skip
        self.gate.masks = masks
        try:
            output = self.decoder(
                input_ids=tokens_BQ,
                position_ids=positions_BQ,
                attention_mask=mask,
                cache=cache,
                use_cache=cache is not None,
            )
        finally:
            self.gate.masks = 0
        return output.last_hidden_state  # type: ignore[no-any-return]

    def logits(self, hidden_ME: Tensor) -> Tensor:
        """(M, V) float32 logits; the mask token gets -inf, in training as in decoding."""
        logits_MV: Tensor = self.head(hidden_ME).float()
        if self.logit_scale != 1.0:
            logits_MV *= self.logit_scale
        if self.mask_token_id is not None:
            logits_MV[..., self.mask_token_id] = float("-inf")
        return logits_MV

    def compile(self) -> None:
        """Make forwards with a cache faster from now on, once their shape has been met.

        On a CPU layers go through torch.compile, on a GPU forwards are replayed as CUDA graphs.

        Raises:
            ModelError: the decoder keeps its layers where we do not look.
        """
        self._is_compiled = True
        if self.device.type == "cuda":
            self._graphs = Graphs(self._run)
            return
        layers = [module for module in self.decoder.children() if isinstance(module, nn.ModuleList)]
        if len(layers) != 1:
            raise ModelError(f"--compile does not know where {type(self.model).__name__} keeps its "
                             "layers; leave it out")  # fmt: skip
        compile_layers(list(layers[0]))

    @torch.no_grad()
    def explain_nan(self) -> str:
        """What to tell someone whose model computed NaN: where it began, as far as can be seen."""
        for name, weight in self.model.named_parameters():
            if not bool(weight.isfinite().all()):
                return f"the weights are broken: {name} holds NaN or infinity; load them again"
        return (
            f"the model computed NaN in {self.dtype}, though its weights are finite: an activation "
            "overflows; use --dtype float32"
        )

    @contextmanager
    def stock(self) -> Iterator[Any]:
        """The model as Hugging Face runs it, for oracles and baselines."""
        self.model.set_attn_implementation("sdpa")
        with plain_linear(self.model):
            try:
                yield self.model
            finally:
                self.model.set_attn_implementation(attention.NAME)

    @torch.no_grad()
    def _check_against_stock(self) -> None:
        """Our causal logits must be Hugging Face's, but for a factor (as in Granite) that is kept.

        Heads that cap their logits, or do anything else to them, would slip through.
        """
        was_training = self.model.training
        self.model.eval()
        count = min(8, self.head.weight.shape[0])
        tokens = torch.arange(count, device=self.device)[None]
        causal = torch.ones(count, count, dtype=torch.bool, device=self.device).tril()
        ours = self.head(
            self.hidden(tokens, torch.arange(count, device=self.device)[None], causal[None, None])
        )
        with self.stock() as model:
            theirs = model(input_ids=tokens, use_cache=False).logits
        self.model.train(was_training)
        factor = float((ours.double() * theirs.double()).sum() / ours.double().square().sum())
        if abs(factor - 1) > 1e-3:
            self.logit_scale = factor
            ours = ours * factor
        scale = theirs.abs().amax().clamp_min(1.0)
        if not torch.allclose(ours / scale, theirs / scale, atol=_tolerance(ours.dtype)):
            raise ModelError(
                f"{type(model).__name__} is not supported: its own logits differ from "
                "head(decoder(tokens)) times a number; unmask does not know what it does to them"
            )


def _tolerance(dtype: torch.dtype) -> float:
    """Two kernels summing in another order, relative to the largest logit."""
    return 1e-4 if dtype in (torch.float32, torch.float64) else 5e-2


def _check_rotary(model: nn.Module) -> None:
    """Weights loaded by way of the meta device can leave the rotary frequencies at zero."""
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq") and not bool(buffer.abs().sum() > 0):
            raise ModelError(f"{name} is all zero: the model was not loaded properly; load again")
