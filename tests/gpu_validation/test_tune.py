"""The sweep over tile sizes: every candidate computes attention."""

from dataclasses import replace

import pytest
import torch

from costmodels.models import TINY
from gpu_validation.attention_case import Case
from gpu_validation.kernels import tune
from gpu_validation.kernels.tune import HEAD, candidates, sweep
from gpu_validation.kernels.variants import VARIANTS
from kvcore.errors import BadInput

CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.parametrize(("role", "work"), [("decode", ((1, 149),) * 2), ("prefill", ((40, 110),) * 2)])
def test_candidates_are_right(role, work):
    tried = {(v.block_m, v.tile, v.split): v for v in candidates(role)}
    assert tried[VARIANTS[role, 2].block_m, VARIANTS[role, 2].tile, VARIANTS[role, 2].split]
    assert len(tried) == {"decode": 6, "prefill": 6}[role]
    lines = list(sweep(Case(role, TINY, work), list(tried.values()), CPU, torch.float64))
    assert len(lines) == 6
    assert all(line.count("|") == 9 and "wrong" not in line and "Error" not in line for line in lines)


def test_a_line_says_how_fast_or_what_is_wrong(monkeypatch):
    case, variant = Case("decode", TINY, ((1, 9),)), VARIANTS["decode", 2]
    [line] = sweep(case, [variant], CPU, torch.float64)
    assert line.startswith("| 16 | 64 | 512 | 4 | 3 | ")
    assert line.count("|") == HEAD.splitlines()[0].count("|")
    [line] = sweep(case, [replace(variant, tile=63)], CPU, torch.float64)
    assert line.startswith("| 16 | 63 | 512 | 4 | 3 | ")
    assert "Error" in line


@pytest.mark.parametrize(("arguments", "message"), [(["other"], "no role 'other'"), (["decode"], "no GPU is visible")])
def test_what_it_refuses(arguments, message, monkeypatch):
    monkeypatch.setattr(tune.sys, "argv", ["tune", *arguments])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput, match=message):
        tune.main()
