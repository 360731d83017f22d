"""Pictures: Gantt charts above the memory, schedules side by side, values against a bound, load sweeps.

Every drawing takes the object and an optional matplotlib `Axes`, and returns the `Axes`; `compare_schedules` composes a
`Figure`; `save` writes one and `render` gives its bytes, the same ones each time. Nothing here uses pyplot or changes
matplotlib's settings; matplotlib is imported at the first drawing.
"""

from kvbound.plots.compare import compare_schedules
from kvbound.plots.gantt import gantt, memory
from kvbound.plots.measured import (
    plot_calibration,
    plot_kernels,
    plot_load,
    plot_log,
    plot_profile,
    plot_record,
    plot_replay,
)
from kvbound.plots.policy_values import ladder
from kvbound.plots.style import render, save

__all__ = [
    "compare_schedules", "gantt", "ladder", "memory", "plot_calibration", "plot_kernels", "plot_load", "plot_log",
    "plot_profile", "plot_record", "plot_replay", "render", "save",
]  # fmt: skip
