"""The table of limits: what options and batches take of them, and who names them besides."""

import random

from kvcore.certificates import SlotPrices
from kvcore.certificates.options import RequestOptions
from kvcore.limits import LIMITS, Use, use_of
from tests.support.drawer import tiny_instance
from tests.support.few import few


def test_an_option_takes_of_each_limit_what_a_batch_of_it_does():
    seen = set()
    for seed in few(range(60)):
        instance, draw = tiny_instance(seed), random.Random(seed)
        for request in instance.requests:
            rules = RequestOptions(instance.machine, request)
            state = rules.start()
            for _ in range(10):
                state = state.after(10**6)
                *_, load, end = draw.choice([*rules.options(state)])
                batch = use_of(load.tokens, load.decode_requests, load.prefill_requests, load.blocks, load.host)
                assert load.shared == tuple(getattr(batch, limit.column) for limit in LIMITS)
                seen |= {column for column, taken in zip(Use._fields, batch, strict=True) if taken}
                state = end
    assert seen == set(Use._fields)


def test_prices_of_slots_have_a_row_for_each_limit():
    assert tuple(SlotPrices.model_fields) == ("since", *(limit.name for limit in LIMITS))
