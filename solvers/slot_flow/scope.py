"""The size of the instances that the way takes."""

from bounds.slot_solver import SlotOptions, options_at_most
from kvcore.instance import Instance
from solvers.slot_flow.late import late_segments


def too_large(instance: Instance) -> str | None:
    """Say why no program is made of an instance (None: one is, unless its graphs are too large)."""
    options = options_at_most(late_segments(instance) or instance)
    if options > SlotOptions.given().most_options:
        return f"arc-flow takes few options, and requests may have {options} (coarser blocks and ticks: fewer)"
    return None
