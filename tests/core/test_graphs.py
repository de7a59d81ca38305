"""What a CPU can tell about recorded forwards: a recorder that runs again what it recorded."""

import gc

import pytest
from conftest import make_backbone, make_config

from unmask.core.graphs import WINDOW_STEP, Graphs
from unmask.verify.subject import Subject


class Recorder:
    """Runs the recorded forward on its own inputs, into its own output, as a CUDA graph would."""

    def __init__(self, *, is_stale=False):
        self.is_stale, self.recorded, self.replayed = is_stale, 0, 0

    def __call__(self, run):
        self.recorded += 1
        output = run().clone()

        def replay():
            self.replayed += 1
            if not self.is_stale:
                output.copy_(run())

        return output, replay


def make_recorded(recorder):
    subject = Subject(backbone=make_backbone(), config=make_config())
    subject.backbone._graphs = Graphs(subject.backbone._run, recorder)
    subject.backbone._is_compiled = True
    return subject


PROMPTS = [list(range(3, 3 + length)) for length in (5, 9, 17)]


@pytest.mark.parametrize("cache", ["block", "dual"])
def test_replayed_forwards_decode_the_same_tokens(cache):
    plain = Subject(backbone=make_backbone(), config=make_config())
    wanted = plain.decode(PROMPTS, 40, threshold=0.2, cache=cache)
    recorder = Recorder()
    recorded = make_recorded(recorder)
    for _ in range(2):  # the second time on the slabs, with the recordings, of the first
        got = recorded.decode(PROMPTS, 40, threshold=0.2, cache=cache)
        assert [s.tokens for s in got] == [s.tokens for s in wanted]
    shapes = recorder.recorded
    assert recorder.replayed > 4 * shapes
    recorded.decode(PROMPTS, 40, threshold=0.2, cache=cache)
    assert recorder.recorded == shapes


def test_a_replay_that_computes_nothing_is_noticed():
    plain = Subject(backbone=make_backbone(), config=make_config())
    wanted = plain.decode(PROMPTS, 40, threshold=0.2, cache="block")
    stale = make_recorded(Recorder(is_stale=True))
    got = stale.decode(PROMPTS, 40, threshold=0.2, cache="block")
    assert [s.tokens for s in got] != [s.tokens for s in wanted]


def test_a_cache_is_never_lent_twice_and_one_is_kept():
    class Borrower:
        pass

    backbone = make_recorded(Recorder()).backbone
    first, second = Borrower(), Borrower()
    one, two = (backbone.new_cache(2, 40, borrower) for borrower in (first, second))
    assert one is not two
    assert one.max_len == WINDOW_STEP
    del second
    gc.collect()
    third = Borrower()
    assert backbone.new_cache(2, 64, third) is two
    del first, third
    gc.collect()
    assert len(backbone._graphs._left) == 1
    assert backbone.new_cache(3, 64, Borrower()).rows == 3
