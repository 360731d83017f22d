"""WAIT batch by batch by hand."""

from __future__ import annotations

import pytest

from heuristics import Unsuited, get_policy, run_policy
from tests.heuristics.test_policies_today import moves, request, serving


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"memory": 17}, "2 of each of 1 types at every stage need 18 of memory, and the machine has 17"),
        ({"batch_tokens": 7}, "need 8 of batch_tokens, and the machine has 7; take a smaller threshold"),
        ({"prefill_tokens": 3}, "need 4 of prefill_tokens, and the machine has 3"),
        ({"batch_requests": 5}, "need 6 of batch_requests, and the machine has 5"),
    ],
)
def test_what_a_full_batch_needs_must_be_there(limit: dict[str, int], message: str) -> None:
    """N = 2 of type (2, 3): 2 (2 + 3 + 4) tokens of KV; a batch of 2 (2 + 1 + 1) tokens, 4 of prompts, 6 requests."""
    pair = request("A", 2, 3), request("B", 2, 3)
    given = serving(18, *pair, batch_tokens=8, prefill_tokens=4, batch_requests=6, evict=False)
    assert len(moves(given, "wait:2,2")) == 3
    with pytest.raises(Unsuited, match=f"^policy wait:2,2 cannot run on .*: .*{message}"):
        run_policy(given.replace(machine=given.machine.replace(**limit)), get_policy("wait:2,2"))
