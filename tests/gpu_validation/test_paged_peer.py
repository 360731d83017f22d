"""The attention kernel against torch's own paged attention (flex_attention, eager): another table, another mask."""

import random

import pytest
import torch
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from gpu_validation.kernels.backend import TritonBackend
from tests.gpu_validation.paged import Inputs, attend

HEADS, KV_HEADS, WIDTH, PAGE = 4, 2, 16, 16


def pages_of(lengths):
    """Return a page table of torch's class; the requests take turns at pages in random order."""
    paged = PagedAttention(sum(-(-n // PAGE) for n in lengths) + 2, PAGE, len(lengths), device="cpu")
    random.Random(len(lengths)).shuffle(paged.empty_pages)
    for tokens in range(PAGE, max(lengths) + PAGE, PAGE):
        for s, length in enumerate(lengths):
            paged.reserve(torch.tensor(s), torch.tensor(min(tokens, length)))
    return paged


def by_torch(paged, query, key, value, lengths, rows):
    """Return (attention [requests, H, rows, D] by torch, the caches of keys and values that it filled)."""
    size = paged.n_pages * PAGE
    caches = [torch.zeros((1, KV_HEADS, size, WIDTH), dtype=query.dtype) for _ in range(2)]
    for s, length in enumerate(lengths):
        span = torch.arange(length)[None]
        paged.assign(torch.tensor([s]), span, key[s : s + 1, :, :length], value[s : s + 1, :, :length], *caches)
    before = torch.tensor(lengths) - rows

    def causal(b, h, q, k):
        return k <= q + before[b]

    longest = -(-max(lengths) // PAGE) * PAGE
    blocks = create_block_mask(causal, len(lengths), 1, rows, longest, device="cpu", BLOCK_SIZE=(PAGE, PAGE))
    kept = torch.tensor(lengths)
    mask = paged.convert_logical_block_mask(blocks, kv_len=kept)
    shared = [cache.expand(len(lengths), -1, -1, -1) for cache in caches]
    score = paged.get_score_mod(lambda score, b, h, q, k: score, kv_len=kept)
    return flex_attention(query, *shared, score_mod=score, block_mask=mask, enable_gqa=True), caches


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("lengths", "rows"), [([33, 64, 5], 1), ([40, 70], 9), ([20, 16], 16)])
def test_torch_says_the_same(lengths, rows):
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    query = normal(len(lengths), HEADS, rows, WIDTH)
    key, value = (normal(len(lengths), KV_HEADS, max(lengths), WIDTH) for _ in range(2))
    paged = pages_of(lengths)
    theirs, caches = by_torch(paged, query, key, value, lengths, rows)
    tables = [[page for page in row if page >= 0] for row in paged.page_table.tolist()]
    assert any(table != sorted(table) for table in tables)
    kv = torch.stack([cache[0].unflatten(1, (paged.n_pages, PAGE)).transpose(0, 1) for cache in caches], 1).contiguous()
    flat = query.transpose(1, 2).flatten(0, 1).contiguous()
    starts = [rows * s for s in range(len(lengths) + 1)]
    ours, _ = attend(TritonBackend("cpu"), Inputs(flat, kv, starts, lengths, tables, WIDTH**-0.5))
    torch.testing.assert_close(ours, theirs.transpose(1, 2).flatten(0, 1), atol=1e-13, rtol=0)
