"""What tightens the Big-M program before it is written: functions that add rows or narrow constants.

*Implied*: it holds in every schedule by the rules alone (tried: `tests/formulations/test_tightening.py`). What holds in
some optimal schedule only names its program in `tests/reductions`, which makes one of any schedule.
"""

from collections.abc import Callable
from functools import partial

from formulations.big_m import BigM
from formulations.big_m_letters import Rows
from formulations.tightening import cost, memory, times, tokens

NARROW: tuple[Callable[[BigM], None], ...] = (
    tokens.count_by_token, tokens.narrow_constants, cost.narrow_durations, cost.narrow_batches, cost.narrow_digits,
    memory.narrow_room, times.narrow_waits, times.add_spans,
)  # fmt: skip
"""Change letters and constants; the order matters."""

ROWS: tuple[Callable[[BigM], Rows], ...] = (
    tokens.token_order, tokens.call_before_next_token, tokens.no_pause_by_token, tokens.token_generation,
    tokens.phase_tokens, tokens.tokens_by_token,
    memory.batches_until_the_end, memory.generation_packing, memory.resident_packing,
    memory.identical_requests_end_in_order,
    times.time_is_spent, times.progress_takes_time, times.rest_takes_time, times.longest_flow_of_the_last,
    cost.prefills_fit, cost.prefill_batches, cost.some_phase, cost.kv_read_by_decodes, cost.pairs_of_fresh_prefills,
    cost.pairs_by_token,
)  # fmt: skip
"""Add rows, or replace the rows of that name by tighter ones."""


def tighten(program: BigM) -> None:
    """Tighten a program that is not written yet; none of this is shown with contents."""
    if program.instance.contents:
        return
    for narrow in NARROW:
        narrow(program)
    program.rows |= {rows.__name__: partial(rows, program) for rows in ROWS}
