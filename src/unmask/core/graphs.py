"""Forwards of a shape met before, replayed from a recording: CUDA graphs. The same kernels.

A decoding step launches hundreds of small kernels; on a GPU launching them takes longer than
running them. A graph launches them all at once, but only ever on the same memory: inputs are copied
to where the recording reads them, and the slabs never move.
"""

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary, finalize

import torch
from torch import Tensor

from unmask.core.cache import BlockCache

WINDOW_STEP = 256
"""Windows are rounded up to a multiple of it, so that a block decoded is no new shape."""

Shape = tuple[int, int, int, bool, int]
Run = Callable[[Tensor, Tensor, Tensor, BlockCache, int], Tensor]
"""The forward to record: tokens, positions, mask, cache, masks."""
Record = Callable[[Callable[[], Tensor]], tuple[Tensor, Callable[[], None]]]
"""From a forward to where its result is put, and how to run it again."""


def record_cuda(run: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
    """Record a CUDA graph, after a run on a side stream that sets up what is made once."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = run()
    return output, graph.replay


@dataclass(slots=True)
class _Recording:
    """One shape: its inputs, its result, how to run it."""

    inputs: tuple[Tensor, ...]
    output: Tensor
    replay: Callable[[], None]


class Graphs:
    """A forward that is recorded when a shape is met for the second time, then replayed.

    Args:
        run: the forward.
        record: how to record it.
    """

    def __init__(self, run: Run, record: Record = record_cuda) -> None:
        self.run, self.record = run, record
        self._left: list[BlockCache] = []
        self._recordings: WeakKeyDictionary[BlockCache, dict[Shape, _Recording | None]] = (
            WeakKeyDictionary()
        )

    def __call__(
        self, tokens_BQ: Tensor, positions_BQ: Tensor, mask: Tensor, cache: BlockCache, masks: int
    ) -> Tensor:  # fmt: skip
        """Hidden states (B, Q, E), good until this shape is run again."""
        known = self._recordings.setdefault(cache, {})
        shape = (*tokens_BQ.shape, cache.window, cache.rows_are_leading, masks)
        if shape not in known:  # most shapes are met once; the first also makes the slabs
            known[shape] = None
            return self.run(tokens_BQ, positions_BQ, mask, cache, masks)
        inputs = (tokens_BQ, positions_BQ, mask, cache.rows_B, cache.columns_BQ)
        recording = known[shape]
        if recording is None:
            recording = known[shape] = self._make(inputs, cache, masks)
        else:
            for place, tensor in zip(recording.inputs, inputs, strict=True):
                place.copy_(tensor)
        recording.replay()
        return recording.output

    def lend(self, borrower: object, rows: int, max_len: int,
             make: Callable[[int, int], BlockCache]) -> BlockCache:  # fmt: skip
        """A cache until `borrower` is gone: the one that the last borrower left, if it is alike.

        Recordings are worth something only on the same slabs.
        """
        max_len = -(-max_len // WINDOW_STEP) * WINDOW_STEP
        left = [cache for cache in self._left if (cache.rows, cache.max_len) == (rows, max_len)]
        self._left.clear()
        cache = left[0] if left else make(rows, max_len)
        finalize(borrower, self._take_back, cache)
        return cache

    def _take_back(self, cache: BlockCache) -> None:
        self._left[:] = [cache]

    def _make(self, inputs: tuple[Tensor, ...], cache: BlockCache, masks: int) -> _Recording:
        own = tuple(tensor.clone() for tensor in inputs)
        tokens_BQ, positions_BQ, mask, cache.rows_B, cache.columns_BQ = own
        output, replay = self.record(lambda: self.run(tokens_BQ, positions_BQ, mask, cache, masks))
        return _Recording(own, output, replay)
