"""The pictures of the pages: schedules of built-in instances, drawn by kvbound.plots, the same to the byte each time.

The bytes depend on matplotlib's version: `MATPLOTLIB` is the one that drew those in docs/images.
"""

import tomllib
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import solvers
from docs.make.lists import RECORDS
from heuristics import get_policy, run_policy
from kvbound.plots import compare_schedules, ladder, plot_profile, plot_record, render, style
from kvbound.plots.frame import Frame
from kvbound.plots.gantt import draw_gantt, gantt, legend
from kvbound.timeline import Kind
from kvcore import Batch, Cost, Instance, Machine, Request, Schedule, Segment, Trace, verify_schedule
from kvcore.cost import CostFunction
from kvcore.metrics import total_flow_time
from kvcore.result import Result
from library import Library
from library.policies import known_rows, profile
from workloads.builtin import builtin_instance

MATPLOTLIB = "3.11"  # its major and minor version
MARS = builtin_instance("mars-figure1")
ALONE = MARS.replace(requests=MARS.requests[:1])  # one request of the worked example
FIGURE_15 = builtin_instance("infermax-figure15:I=4")


def trace_of(instance: Instance, policy: str) -> Trace:
    """Run a policy; the referee executes its schedule."""
    return verify_schedule(instance, run_policy(instance, get_policy(policy)))


def draw_gap() -> bytes:
    """The trace of the tutorial: vLLM V1's schedule above the optimum, and the memory that both hold."""
    sizes = ((0, 6, 4), (0, 2, 9), (1, 12, 2), (2, 3, 6), (3, 9, 3), (4, 2, 7))  # arrival, prompt, decode
    requests = [
        Request(id=f"R{k}", arrival=arrival, prompt=prompt, segments=(Segment(decode=decode),))
        for k, (arrival, prompt, decode) in enumerate(sizes, 1)
    ]
    machine = Machine(memory=24, host_memory=0, batch_tokens=8, evict=True)
    instance = Instance(tick_seconds=Fraction(1, 2), machine=machine, requests=tuple(requests))
    best = optimum(instance)
    assert best.trace is not None  # for mypy
    named = {"vLLM V1": trace_of(instance, "vllm-v1"), "the optimum": best.trace}
    frame = Frame.of(list(named.values()))
    with style.sheet(6.4, 5.2, None) as figure:
        *rows, below = figure.subplots(3, sharex=True, height_ratios=[1.5, 1.5, 1])
        kinds: set[Kind] = set()
        for ax, (name, trace) in zip(rows, named.items(), strict=True):
            kinds |= draw_gantt(ax, trace, frame)
            mean = total_flow_time(trace) * instance.tick_seconds / len(sizes)
            ax.set_title(f"{name}: mean latency {float(mean):.2f} s", loc="left")
        for (name, trace), colour in zip(named.items(), (style.VERMILLION, style.BLUE), strict=True):
            times, held = zip(*trace.memory_curve(), strict=True)
            below.step([tick * frame.scale(trace) for tick in times], held, where="post", color=colour, label=name)
        below.axhline(machine.memory or 0, color=style.BLACK, linewidth=0.8, linestyle=":", label="memory")
        below.set_ylabel("KV (tokens)")
        below.set_xlabel(f"time ({frame.units.time})")
        lines = below.get_legend_handles_labels()[0]
        figure.legend(**legend(kinds, lines), loc="outside lower center", ncols=4)
    return render(figure)


def optimum(instance: Instance) -> Result:
    """Return the certified optimum; RuntimeError where it was not proved in time."""
    best = solvers.solve(instance, "total-flow-time", formulation="search", time_limit=60)
    if best.status != "optimal":
        raise RuntimeError(f"the optimum of {instance.name} was not proved in time: {best.status}")
    return best


def draw_schedules(*columns: tuple[str, Instance, str]) -> bytes:
    """What policies make of instances, side by side."""
    return render(compare_schedules([(title, trace_of(instance, policy)) for title, instance, policy in columns]))


def draw_worked() -> bytes:
    """An optimal schedule of the instance that docs/model.md works through: three batches."""
    requests = (
        Request(id="A", prompt=2, segments=(Segment(decode=2),)),
        Request(id="B", prompt=1, segments=(Segment(decode=2),)),
    )
    cost = Cost((CostFunction(busy=4, tokens=1),))
    two = Instance(name="two", machine=Machine(memory=4, batch_tokens=2), cost=cost, requests=requests)
    batches = (
        Batch(start=0, work={"A": 2}), Batch(start=6, work={"A": 1, "B": 1}), Batch(start=12, work={"B": 1}),
    )  # fmt: skip
    return render(gantt(verify_schedule(two, Schedule(instance_sha256=two.sha256, batches=batches))).figure.figure)


def draw_bound() -> bytes:
    """The worked example: policies above the proved optimum."""
    rows = [solvers.simulate_policy(MARS, name).to_json() for name in ("fcfs", "sjf", "sjf-api", "mars-order")]
    return render(ladder([*rows, {**optimum(MARS).to_json(), "label": "the best there is"}]).figure.figure)


PICTURES: dict[str, Callable[[], bytes]] = {
    "gap.svg": draw_gap,
    "batches.svg": partial(draw_schedules, ("first come, first served", MARS, "fcfs")),
    "handlings.svg": partial(
        draw_schedules, *((way, ALONE.with_calls_handled(way), "serial") for way in ("preserve", "discard", "swap"))
    ),
    "eviction.svg": partial(draw_schedules, *((name, FIGURE_15, name) for name in ("vllm", "vllm-ef"))),
    "bound.svg": draw_bound,
    "worked.svg": draw_worked,
    "replays-on-a-cpu.svg": lambda: render(
        plot_record(tomllib.loads(next(RECORDS.glob("*-replays-on-a-cpu.toml")).read_text(encoding="utf-8")))
    ),
    "library.svg": lambda: render(plot_profile(profile(known_rows(Library())))),
}
