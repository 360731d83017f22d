"""The sweep over tile sizes: every candidate computes attention; on a CPU its clock is the test's."""

from dataclasses import replace

import pytest
import torch

from gpu_validation.backend import TorchBackend
from gpu_validation.kernels import tune
from gpu_validation.kernels.tune import Question, candidates, prepare, sweep
from gpu_validation.kernels.variants import VARIANTS
from kvcore.errors import BadInput

SMALL = Question(2, 150, 1, width=16, heads=4, kv_heads=2)


def wrong(question, variant):
    """Return the largest error of a variant."""
    prepared = prepare(question, "cpu", torch.float64)
    expected = TorchBackend().attention(prepared.query, prepared.kv, prepared.layout, question.width**-0.5)
    return float((prepared.call(variant)() - expected).abs().max())


@pytest.mark.slow
@pytest.mark.parametrize(("role", "rows"), [("decode", 1), ("prefill", 40)])
def test_candidates_are_right(role, rows):
    tried = {(v.block_m, v.tile, v.split): v for v in candidates(role)}
    assert tried[VARIANTS[role, 2].block_m, VARIANTS[role, 2].tile, VARIANTS[role, 2].split]
    assert len(tried) == {"decode": 6, "prefill": 6}[role]
    for variant in tried.values():
        assert wrong(replace(SMALL, rows=rows), variant) <= 1e-13


def test_a_line_says_how_fast():
    question = Question(2, 1000, 10, width=16, heads=4, kv_heads=2)
    assert question.bytes_read(2) == 2 * 2 * 1000 * 2 * 16 * 2
    assert question.operations() == 4 * 2 * (10 * 990 + 55) * 4 * 16
    lines = list(sweep(SMALL, [VARIANTS["decode", 2]], "cpu", torch.float64, lambda call: 1e-6))
    assert lines == ["| 16 | 64 | 512 | 4 | 3 | 0.0000 | 153.60 | 77 |"]


@pytest.mark.parametrize(("arguments", "message"), [(["other"], "no role 'other'"), (["decode"], "no GPU is visible")])
def test_what_it_refuses(arguments, message, monkeypatch):
    monkeypatch.setattr(tune.sys, "argv", ["tune", *arguments])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput, match=message):
        tune.main()
