"""The time and memory axes that the charts of a figure share."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple, Self

from kvbound.plots import style
from kvbound.plots.style import Axes
from kvbound.units import Units, units_of
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import makespan
from kvcore.trace import Trace

DRAWABLE = 200  # requests up to which schedules are drawn
FAR = 2  # of three or more, what is more than so many times the median is left out, or drawn beyond the axis


def check_drawable(instance: Instance) -> None:
    """Raise BadInput for more requests than are drawn."""
    if len(instance.requests) > DRAWABLE:
        raise BadInput(
            f"up to {DRAWABLE} requests are drawn, {instance.name} has {len(instance.requests)}; "
            "kvbound load draws measures"
        )


class Frame(NamedTuple):
    """The axes: the units, the last completion, the top of the memory axis."""

    units: Units
    end: float
    top: float

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> Self:
        """Make axes that fit all the traces."""
        last = max(traces, key=lambda trace: makespan(trace) * trace.instance.tick_seconds)
        units = units_of(last.instance)
        return cls(units, float(makespan(last) * units.tick), 1.3 * max(max(_levels(trace)) for trace in traces))

    def scale(self, trace: Trace) -> float:
        """Units of time in a tick of this trace."""
        return float(trace.instance.tick_seconds / self.units.seconds)

    def text(self, time: float) -> str:
        """Write a time: ticks whole, others with the decimals that give the last completion three digits."""
        return f"{time:,.{0 if self.units.time == 'ticks' else style.decimals(self.end, 3)}f}"


def far(values: Sequence[float]) -> list[bool]:
    """Return which values dwarf the others."""
    return [len(values) > 2 and value > FAR * median(values) for value in values]


def _levels(trace: Trace) -> list[int]:
    peaks = [max(batch.device for batch in trace.batches), max(batch.host for batch in trace.batches)]
    limit = trace.instance.machine.memory
    return peaks if limit is None or limit > 8 * max(peaks) else [*peaks, limit]


def set_time(ax: Axes, frame: Frame) -> None:
    """Start the x axis at 0, with room for the last completion."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    text = 0.08 + 0.06 * len(frame.text(frame.end))  # inches of the widest number
    ax.set_xlim(0, frame.end * (1 + text / style.inches(ax)))
    ax.xaxis.set_major_locator(MaxNLocator(max(3, int(style.inches(ax) / text)), integer=frame.units.time == "ticks"))
    ax.xaxis.set_major_formatter(FuncFormatter(style.number))
