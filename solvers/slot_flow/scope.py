"""Which instances the way takes."""

from bounds.slot_solver import SlotOptions, options_at_most
from kvcore.instance import Instance
from kvcore.metrics import FLOWS
from solvers.slot_flow.late import late_segments


def why_not(instance: Instance, objective: str) -> str | None:
    """Say why the way does not take an instance and an objective (None: it does, unless its graphs are too large)."""
    if objective not in FLOWS:
        return f"does {', '.join(FLOWS)}, not {objective}"
    if not instance.cost.always_one_tick:
        return "needs batches that all last one tick"
    options = options_at_most(late_segments(instance) or instance)
    if options > SlotOptions.given().most_options:
        return f"takes requests with few options, and these may have {options} (coarser blocks and ticks: fewer)"
    return None
