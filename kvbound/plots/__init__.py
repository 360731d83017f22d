"""Pictures: Gantt charts above the memory, schedules side by side, values against a bound, load sweeps.

A drawing takes an optional matplotlib `Axes`, and returns it; `compare_schedules` composes a `Figure`; `save` writes
one and `render` gives its bytes, the same each time. pyplot and matplotlib's settings stay untouched.
"""

from kvbound.plots.compare import compare_schedules
from kvbound.plots.gantt import gantt, memory
from kvbound.plots.measured import plot_calibration, plot_load, plot_log, plot_profile, plot_record, plot_replay
from kvbound.plots.policy_values import ladder
from kvbound.plots.style import render, save

__all__ = [
    "compare_schedules", "gantt", "ladder", "memory", "plot_calibration", "plot_load", "plot_log",
    "plot_profile", "plot_record", "plot_replay", "render", "save",
]  # fmt: skip
