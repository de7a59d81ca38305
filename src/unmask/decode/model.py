"""`Model`: a checkpoint ready to answer. What `unmask.load` returns."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal, Unpack, get_args

import torch

from unmask.config import DiffusionConfig, check_sub_block_size
from unmask.core.canvas import Sampling
from unmask.core.int8 import use_int8_linear
from unmask.core.linear import use_few_rows_linear
from unmask.decode.autoregressive import ar_config
from unmask.decode.draft_length import DraftLength, FixedLength
from unmask.decode.engine import Engine, Request, Sequence, Snapshot
from unmask.decode.options import DecodeOptions, Mode, OptionValues
from unmask.decode.policy import make_policy
from unmask.decode.speculative import SpeculativeEngine
from unmask.decode.stats import Nfe, tokens_per_forward
from unmask.decode.strategy import make_strategy
from unmask.decode.text import (
    Prompt,
    cut_at_stop,
    decode_tokens,
    encode_prompt,
    line_end_token_ids,
    make_stop_check,
    settled,
)
from unmask.errors import ConfigError, ModelError, unknown_name
from unmask.store.checkpoint import Checkpoint, load_checkpoint
from unmask.store.embedded import Progress
from unmask.store.vocabulary import embedding_rows

Quantize = Literal["int8"]
"""Weight formats that a checkpoint can be decoded in."""

MAX_ROWS = 64
"""Sequences decoded side by side; more wait their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """An answer and what it took."""

    text: str
    token_ids: list[int]
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    new_tokens: int
    """Up to and including the token that ended the answer."""
    nfe: Nfe
    accepted: list[int]
    """For each new token the number of the forward that decided it, from 0."""
    tpf: float
    """new_tokens / (denoise + commit forwards)."""
    first_token_s: float
    """From being handed to the engine to the first committed token of this answer."""
    seconds: float
    """Wall time of the whole call, shared by the prompts of a batch."""
    tokens_per_s: float
    """New tokens of this answer / seconds."""
    mode: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened to an answer that is being decoded."""

    kind: Literal["committed", "provisional", "finished"]
    """`committed`: text that will not change; `provisional`: the answer as it stands;
    `finished`: the whole answer."""
    text: str = ""
    """The new text of a `committed` event."""
    canvas: Snapshot | None = None
    generation: Generation | None = None


class Model:
    """A checkpoint with an engine around it."""

    def __init__(
        self, checkpoint: Checkpoint, quantize: Quantize | None = None, *, compile: bool = False
    ) -> None:
        check_levers(quantize, compile=compile)
        self.checkpoint, self.quantize = checkpoint, quantize
        self.backbone = checkpoint.backbone()
        if quantize == "int8":
            use_int8_linear(checkpoint.model)
        else:
            use_few_rows_linear(checkpoint.model)
        if compile:
            self.backbone.compile()
        self._draft_length = DraftLength(1 if self.config is None else self.config.block_size)

    @property
    def name(self) -> str:
        """What it was loaded as."""
        return self.checkpoint.name

    @property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer."""
        return self.checkpoint.tokenizer

    @property
    def config(self) -> DiffusionConfig | None:
        """How the weights are meant to be read; None where they are not adapted."""
        return self.checkpoint.config

    def generate(
        self, prompts: Prompt | list[Prompt], *, raw: bool = False,
        **options: Unpack[OptionValues],
    ) -> list[Generation]:  # fmt: skip
        """Answer prompts, side by side.

        Args:
            prompts: one or more; each a text (one user turn) or a message list.
            raw: no chat template.
            options: fields of `DecodeOptions`.

        Returns:
            One generation per prompt, in order.

        Raises:
            PromptError, ConfigError, ModelError: before anything is decoded.
        """
        chosen, started = self._choose(options), perf_counter()
        encoded = [self.encode(prompt, raw=raw) for prompt in _as_list(prompts)]
        engine = self._make_engine(encoded, chosen)
        sequences = [engine.submit(self._request(ids, chosen)) for ids in encoded]
        engine.run()
        seconds = perf_counter() - started
        return [self._generation(sequence, chosen, seconds) for sequence in sequences]

    def stream(
        self, prompt: Prompt, *, raw: bool = False, **options: Unpack[OptionValues]
    ) -> Iterator[Event]:
        """Answer one prompt, telling what happens after every round of the engine.

        The texts of all `committed` events joined are the text of the `finished` event.
        """
        chosen, started = self._choose(options), perf_counter()
        ids = self.encode(prompt, raw=raw)
        engine = self._make_engine([ids], chosen)
        sequence = engine.submit(self._request(ids, chosen))
        told, seconds = "", perf_counter() - started
        while True:
            started = perf_counter()
            is_done = sequence in engine.step()
            seconds += perf_counter() - started  # not what the viewer takes between two rounds
            if is_done:
                break
            canvas = engine.snapshot(0)
            yield Event(kind="provisional", canvas=canvas)
            text = decode_tokens(canvas.tokens[: canvas.committed], self.tokenizer)
            text = settled(text, chosen.stop)
            if len(text) > len(told):
                yield Event(kind="committed", text=text[len(told) :])
                told = text
        generation = self._generation(sequence, chosen, seconds)
        if generation.text != told:
            yield Event(kind="committed", text=generation.text[len(told) :])
        yield Event(kind="finished", generation=generation)

    def encode(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """Token ids of a prompt, the chat template around it unless `raw`.

        Raises:
            PromptError: empty, too long, or holding the mask token.
        """
        mask_token_id = None if self.config is None else self.config.mask_token_id
        return encode_prompt(
            prompt,
            self.tokenizer,
            raw=raw,
            mask_token_id=mask_token_id,
            max_positions=self.backbone.max_positions,
        )

    @property
    def own_mode(self) -> Mode:
        """What the checkpoint is for."""
        is_denoiser = self.config is not None and self.config.context == "draft"
        return "speculative" if is_denoiser else "diffusion"

    def _choose(self, options: OptionValues) -> DecodeOptions:
        chosen = DecodeOptions(**options)
        return replace(chosen, mode=chosen.mode or self.own_mode)

    def decode_config(self, options: DecodeOptions) -> DiffusionConfig:
        """Block sizes and context of a mode on this checkpoint.

        Raises:
            ModelError: diffusion or drafts on a model that is not adapted to them.
            ConfigError: the sub-block does not divide the block.
        """
        if options.mode == "ar":
            return ar_config(embedding_rows(self.checkpoint.model))
        if self.config is None:
            name = self.checkpoint.name
            raise ModelError(
                f"{name} has no unmask.json, so it cannot be decoded by diffusion; adapt it first "
                f"(unmask adapt {name} --data DATA --out DIR), or use --mode ar"
            )
        if options.mode == "speculative":
            return self._checked_draft_config(self.config, options.draft_length)
        if self.config.context == "draft":
            raise ModelError(
                f"{self.name} is a denoiser: it drafts what AR verifies, and does not fill blocks; "
                "use --mode speculative or ar"
            )
        size = options.block_size or self.config.block_size
        sub_size = options.sub_block_size or min(self.config.sub_block_size, size)
        check_sub_block_size(size, sub_size)
        return replace(self.config, block_size=size, sub_block_size=sub_size)

    def _checked_draft_config(
        self, config: DiffusionConfig, draft_length: int | None
    ) -> DiffusionConfig:
        if config.context in ("block", "full") or not config.token_shift:
            raise ModelError(
                f"{self.name} cannot verify its own drafts: its committed text is not read as an "
                "AR model reads it; adapt with --recipe denoiser_lora, or use --mode diffusion"
            )
        if self.quantize is not None:
            raise ConfigError(
                f"{self.quantize} rounds so coarsely that a verifying forward can disagree with "
                "AR mode; leave --quantize out, or use --mode ar"
            )
        if draft_length is not None and draft_length > config.block_size:
            raise ConfigError(
                f"draft_length must be at most {config.block_size} with {self.name}, which learnt "
                f"windows of that many masks; got {draft_length}"
            )
        return config

    def _make_engine(self, encoded: list[list[int]], options: DecodeOptions) -> Engine:
        if not encoded:
            raise ConfigError("no prompts; pass at least one")
        longest = max(map(len, encoded)) + options.max_new_tokens
        config = self.decode_config(options)
        rows = min(len(encoded), MAX_ROWS)
        max_len = min(longest, self.backbone.max_positions)
        if options.mode == "speculative":
            length = self._draft_length
            if options.draft_length is not None:
                length = FixedLength(options.draft_length)
            return SpeculativeEngine(self.backbone, config, length, rows=rows, max_len=max_len)
        resolved = replace(options, sub_block_size=config.sub_block_size)
        strategy = make_strategy(resolved, line_end_token_ids(self.tokenizer))
        return Engine(
            self.backbone,
            config,
            make_policy(resolved, strategy, is_whole=config.is_whole),
            strategy,
            rows=rows,
            max_len=max_len,
            fuse_commit=options.fuse_commit,
        )

    def _request(self, ids: list[int], options: DecodeOptions) -> Request:
        room = self.backbone.max_positions - len(ids)
        ends = frozenset() if options.ignore_eos else self.checkpoint.end_token_ids()
        return Request(
            prompt=ids,
            max_new_tokens=min(options.max_new_tokens, room),
            end_token_ids=ends,
            stop=make_stop_check(options.stop, self.tokenizer),
            sampling=Sampling(
                temperature=options.temperature, top_p=options.top_p, seed=options.seed
            ),
        )

    def _generation(self, sequence: Sequence, options: DecodeOptions, seconds: float) -> Generation:
        text = decode_tokens(sequence.tokens, self.tokenizer)
        new_tokens = len(sequence.tokens)
        return Generation(
            text=cut_at_stop(text, options.stop),
            token_ids=sequence.tokens,
            finish_reason="stop" if sequence.is_stopped else "length",
            prompt_tokens=len(sequence.request.prompt),
            new_tokens=new_tokens,
            nfe=sequence.nfe,
            accepted=sequence.accepted,
            tpf=tokens_per_forward(new_tokens, sequence.nfe),
            first_token_s=sequence.first_s,
            seconds=seconds,
            tokens_per_s=new_tokens / seconds,
            mode=options.mode or self.own_mode,
            seed=options.seed,
        )


def _as_list(prompts: Prompt | list[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str):
        return [prompts]
    if prompts and isinstance(prompts[0], dict):  # one conversation
        return [prompts]
    return list(prompts)  # type: ignore[arg-type]


def load(
    model: str,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    quantize: Quantize | None = None,
    compile: bool = False,
    progress: Progress = lambda _text, _share: None,
) -> Model:
    """Load MODEL: a folder, an alias such as `smollm2`, or a hub id.

    `quantize="int8"` means int8 weights on a CPU: faster, approximate. `compile=True` means layers
    through torch.compile on a CPU, CUDA graphs on a GPU: faster, once a shape has been met.

    Raises:
        ModelError: missing, truncated, unsupported, or its parts do not belong together.
        ConfigError: a quantisation that does not fit the device.
    """
    checkpoint = load_checkpoint(model, device=device, dtype=dtype, progress=progress)
    return Model(checkpoint, quantize, compile=compile)


def check_levers(quantize: Quantize | None, *, compile: bool) -> None:
    """Refuse what does not go together.

    Raises:
        ConfigError: int8 layers cannot be compiled.
    """
    if compile and quantize:
        raise ConfigError(f"--compile and --quantize {quantize} do not go together; choose one")


def pick_quantize(name: str | None) -> Quantize | None:
    """The weight format that a name stands for.

    Raises:
        ConfigError: it stands for none.
    """
    for known in get_args(Quantize):
        if name == known:
            return known  # type: ignore[no-any-return]
    if name is not None:
        raise ConfigError(unknown_name("quantisation", name, get_args(Quantize)))
    return None
