import torch
from conftest import make_backbone


def write(backbone, cache, rows, tokens, first, window):
    """Forward tokens at absolute positions into the cache; everything before them is visible."""
    columns = torch.tensor(first)[:, None] + torch.arange(tokens.shape[1])
    cache.aim(torch.tensor(rows), columns, window, torch.device("cpu"))
    keys = torch.arange(window)
    mask = (keys <= columns[:, :, None])[:, None]
    with torch.no_grad():
        return backbone.hidden(tokens, columns, mask, cache)


def test_ragged_rows_equal_rows_alone():
    backbone = make_backbone()
    cache = backbone.new_cache(3, 32)
    long, short = torch.randint(0, 90, (1, 12)), torch.randint(0, 90, (1, 5))
    write(backbone, cache, [0], long[:, :10], [0], 10)
    write(backbone, cache, [1], short[:, :3], [0], 3)
    both = write(backbone, cache, [0, 1], torch.cat([long[:, 10:], short[:, 3:]]), [10, 3], 12)
    for row, ids in ((0, long), (1, short)):
        length = ids.shape[1]
        causal = torch.ones(length, length).tril().bool()[None, None]
        with torch.no_grad():
            alone = backbone.hidden(ids, torch.arange(length)[None], causal)
        torch.testing.assert_close(both[row], alone[0, -2:], atol=1e-4, rtol=1e-4)
        assert (both[1 - row] - alone[0, -2:]).abs().max() > 0.1  # the other row is told apart


def test_rows_in_any_order_read_their_own_slab():
    backbone = make_backbone()
    cache = backbone.new_cache(2, 16)
    ids = torch.randint(0, 90, (2, 4))
    write(backbone, cache, [0, 1], ids, [0, 0], 4)
    more = torch.randint(0, 90, (1, 2))
    swapped = write(backbone, cache, [1], more, [4], 6)
    other = write(backbone, cache, [0], more, [4], 6)
    assert (swapped - other).abs().max() > 0.1


def test_moving_a_row_moves_its_history():
    backbone = make_backbone()
    cache = backbone.new_cache(2, 16)
    write(backbone, cache, [0, 1], torch.randint(0, 90, (2, 4)), [0, 0], 4)
    kept = cache.layers[0].keys[1].clone()
    cache.move_row(1, 0)
    torch.testing.assert_close(cache.layers[0].keys[0], kept)
    torch.testing.assert_close(cache.layers[1].values[0], cache.layers[1].values[1])


def test_nothing_is_allocated_after_the_first_forward():
    backbone = make_backbone()
    cache = backbone.new_cache(1, 16)
    write(backbone, cache, [0], torch.randint(0, 90, (1, 4)), [0], 4)
    before = cache.layers[0].keys.data_ptr()
    write(backbone, cache, [0], torch.randint(0, 90, (1, 4)), [4], 8)
    assert cache.layers[0].keys.data_ptr() == before
