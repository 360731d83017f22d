"""What makes the Big-M program tighter: functions that take it, before it is written, and add rows or narrow constants.

Each says why no schedule is lost that is worth finding. What a function calls *implied* holds in every schedule that
the program describes, by the rules alone; the tests look at random ones (`tests/formulations/test_tightening.py`). What
holds in some optimal schedule only names its program in `tests/reductions`, which makes it of any other.
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
"""What changes letters and constants, in an order in which each finds what it reads."""

ROWS: tuple[Callable[[BigM], Rows], ...] = (
    tokens.token_order, tokens.call_before_next_token, tokens.no_pause_by_token, tokens.token_generation,
    tokens.phase_tokens, tokens.tokens_by_token,
    memory.batches_until_the_end, memory.generation_packing, memory.resident_packing,
    memory.identical_requests_end_in_order,
    times.time_is_spent, times.progress_takes_time, times.rest_takes_time, times.longest_flow_of_the_last,
    cost.prefills_fit, cost.prefill_batches, cost.some_phase, cost.kv_read_by_decodes, cost.pairs_of_fresh_prefills,
    cost.pairs_by_token,
)  # fmt: skip
"""What adds rows, or replaces the rows of that name by tighter ones."""


def tighten(program: BigM) -> None:
    """Make a program tighter that is not written yet."""
    for narrow in NARROW:
        narrow(program)
    program.rows |= {rows.__name__: partial(rows, program) for rows in ROWS}
