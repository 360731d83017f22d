"""An instance in words: its machine, the cost of a batch, the segments of a request."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kvbound.tables import Cells, few
from kvbound.units import Units, number, time_units, units_of
from kvcore.cost import Cost, CostFunction, OwnCost
from kvcore.instance import Instance, Machine, Segment
from kvcore.limits import BUDGETS
from kvcore.stream import Sizes

SWITCHES = ("hybrid", "chunked", "evict", "partial", "pause")
COLUMNS = 80
LONGEST = 100  # the most letters of the segments of a request


def facts_in_words(instance: Instance, sizes: Sizes, *, wide: bool = True) -> list[str]:
    """Return the lines that describe an instance, whose first requests suffice; a long cost only if `wide`."""
    machine, units = instance.machine, units_of(instance)
    tick = "" if units.time == "ticks" else f"; a tick is {_time(Fraction(1), units)}"
    switches = ", ".join(name if getattr(machine, name) else f"no {name}" for name in SWITCHES)
    cost = f"a batch lasts {_cost(instance.cost, units)}"
    lines = [
        f"{sizes.requests:,} requests with {sizes.calls:,} calls; {sizes.prompt_tokens:,} prompt, "
        f"{sizes.decode_tokens:,} decode and {sizes.returned_tokens:,} returned {units.kv}; "
        f"{units.spelled(sizes.call_ticks)} in calls{tick}",
        f"KV memory {_limit(machine.memory)} {units.kv}{f', given out by {machine.block}' * (machine.block > 1)}; "
        f"host {_limit(machine.host_memory)}; "
        f"largest peak {sizes.largest_peak:,}, all peaks together {sizes.sum_of_peaks:,}",
        f"a batch takes {_budgets(machine, units)}; {switches}{', drop and work' * machine.drop_and_work}",
        cost if wide or len(cost) <= COLUMNS or isinstance(instance.cost, OwnCost) else _least(instance.cost, units),
    ]
    if (layout := machine.layout) is not None:
        parts = [f"{layout.state:,} blocks of state"] * (layout.state > 0)
        parts += [f"{g.weight:,} for each token" + (f" of the last {g.window:,}" if g.window else "")
                  for g in layout.groups]  # fmt: skip
        lines.insert(2, f"a request occupies {', '.join(parts)}")
    if instance.contents:
        blocks, paths = sum(node.blocks for node in instance.contents), sum(map(bool, instance.parts))
        lines.append(
            f"contents of {blocks:,} blocks in {len(instance.contents):,} nodes, on the paths of {paths:,} requests; "
            f"{'' if machine.same_batch else 'no '}reuse in the batch that computes a block"
        )
    grid = instance.coarsening
    if grid is not None:
        fine = grid.slot_ticks * grid.fine_tick_seconds
        lines.append(
            f"coarsened ({grid.direction}) to blocks of {grid.block_tokens} tokens and slots of {number(fine)} s, "
            f"{grid.slot_ticks} ticks of {number(grid.fine_tick_seconds)} s each"
        )
    return lines


def segments_in_words(segments: Sequence[Segment], units: Units) -> str:
    """Write tokens to decode and calls, as in `3 (2 s +1, swap) 4`."""
    parts = []
    for segment in segments:
        parts.append(str(segment.decode))
        if segment.call is not None:
            returns = f" +{segment.call.returns}" if segment.call.returns else ""
            parts.append(f"({units.spelled(segment.call.duration)}{returns}, {segment.call.handling})")
    text = " ".join(parts)
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + ".."


def request_cells(instance: Instance, most: int) -> tuple[Cells, str]:
    """Return the first requests as a table with its caption, with weights and output limits if any."""
    units, weighted = units_of(instance), any(request.weight != 1 for request in instance.requests)
    limited = any(request.max_new for request in instance.requests)
    shared = bool(instance.contents)
    columns: tuple[str, ...] = ("request", f"arrival, {units.time}", "prompt", "decode and calls", "output", "peak")
    cells = [
        (r.id, units.text(r.arrival), r.prompt, segments_in_words(r.segments, units), r.output, r.peak)
        + (r.weight,) * weighted
        + (r.max_new,) * limited
        + (r.path and f"{r.path[0]}, {r.path[1]}",) * shared
        for r in instance.requests[:most]
    ]
    more = len(instance.requests) > most
    caption = "Requests" + (f": the first {most}, of {len(instance.requests):,}" if more else "")
    columns += ("weight",) * weighted + ("max_new",) * limited
    return Cells(columns + ("path",) * shared, cells, (1, 2, *range(4, len(columns)))), caption


def node_cells(instance: Instance, most: int) -> tuple[Cells, str]:
    """Return the first nodes with their requests, likewise."""
    users: dict[str, list[str]] = {node.id: [] for node in instance.contents}
    for request, parts in zip(instance.requests, instance.parts, strict=True):
        for part in parts:
            users[part.node].append(request.id)
    cells = [(n.id, n.parent, n.blocks, len(users[n.id]), few(users[n.id])) for n in instance.contents[:most]]
    more = len(instance.contents) > most
    caption = "Contents" + (f": the first {most} nodes, of {len(instance.contents):,}" if more else "")
    return Cells(("node", "goes on", "blocks", "requests", "named"), cells, (2, 3)), caption


def _limit(limit: int | None) -> str:
    return "without limit" if limit is None else f"{limit:,}"


def _budgets(machine: Machine, units: Units) -> str:
    words = {"tokens": units.kv, "prefill_tokens": "of them prefill"}
    limits = [(limit.of(machine), words.get(limit.column, limit.words)) for limit in BUDGETS]
    return ", ".join(f"{most:,} {what}" for most, what in limits if most is not None) or "any number of requests"


def _time(ticks: Fraction, units: Units) -> str:
    short = time_units(ticks, units.tick_seconds)
    return f"{float(ticks * short.tick):.4g} {short.time}"


def _cost(cost: Cost, units: Units) -> str:
    if cost.always_one_tick:
        return _time(Fraction(1), units) if units.time != "ticks" else "one tick"
    if isinstance(cost, OwnCost):
        return f"what {cost.name} says"
    parts = [
        " + ".join(f"{_time(ticks, units)} {name}" for name, ticks in coefficients(function)) or "0"
        for function in cost.functions
    ]
    return parts[0] if len(parts) == 1 else "the longest of " + ", ".join(f"({part})" for part in parts)


def _least(cost: Cost, units: Units) -> str:
    least = max(Fraction(function.busy, function.divisor) for function in cost.functions)
    sums = "a sum" if len(cost.functions) == 1 else f"the longest of {len(cost.functions)} sums"
    return f"a batch lasts {sums}, at least {_time(least, units)} (show --wide has all)"


def coefficients(function: CostFunction) -> Iterator[tuple[str, Fraction]]:
    """Yield the terms of a cost function, each with its time in ticks."""
    for name, value in function.model_dump(exclude_defaults=True, exclude={"divisor"}).items():
        hinge = isinstance(value, dict)
        ticks = Fraction(value["coefficient"] if hinge else value, function.divisor)
        yield f"tokens above {value['knee']}" if hinge else name, ticks
