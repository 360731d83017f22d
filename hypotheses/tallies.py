"""Predicates of many slices: which schedule is better in sum, and whether the best stays best."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import ceil

from pydantic import ValidationError

from heuristics import get_policy, predictions, run_policy, with_min_waste_handlings
from heuristics.policies.figure_1 import Listed
from hypotheses.case import Case, Fails, Held, Undecided, ratio
from hypotheses.hypothesis import Predicate
from hypotheses.predicates import Make
from hypotheses.small_instances import with_machine
from kvcore.instance import Handling, Request
from kvcore.metrics import Value

Index = Callable[[Request], int]


def kv_time(request: Request) -> int:
    """Return the KV of a request over its decodes and calls alone, in tokens times ticks."""
    decodes = sum(
        known * segment.decode + segment.decode * (segment.decode - 1) // 2
        for known, segment in zip(request.known, request.segments, strict=True)
    )
    return decodes + sum(request.context_at_call(k) * call.duration for k, call in enumerate(request.calls))


INDICES: dict[str, Index] = {
    "arrival": lambda request: request.arrival,
    "prompt": lambda request: request.prompt,
    "output": lambda request: request.output,
    "tokens": lambda request: request.peak,
    "calls": lambda request: len(request.calls),
    "call time": lambda request: request.call_time,
    "time alone": lambda request: request.output + request.call_time,
    "KV-time": kv_time,
}


def in_order(name: str) -> Make:
    """Run the order of an index by Figure 1's rule."""
    return lambda case: case.policy(Listed([INDICES[name](r) for r in case.instance.requests]), label=name)


def best_of(label: str, *makes: Callable[[Case], Iterator[Held | None]]) -> Make:
    """Make the best of these schedules."""

    def make(case: Case) -> Held:
        held = min((held for each in makes for held in each(case) if held), key=lambda held: held.value)
        return replace(held, label=label)

    return make


def any_handling(case: Case) -> Iterator[Held | None]:
    """Yield first come, first served with one handling for all calls, and with the least waste for each."""
    choices: tuple[Handling, ...] = ("preserve", "discard", "swap")
    yield case.policy("fcfs", with_min_waste_handlings(case.instance))
    for handling in choices:
        with suppress(ValidationError):  # the host cannot hold it
            yield case.policy("fcfs", case.instance.with_calls_handled(handling))


def any_order(case: Case) -> Iterator[Held | None]:
    """Yield each order by Figure 1's rule, with every call preserved."""
    kept = case.instance.with_calls_handled("preserve")
    return (case.policy(Listed(order), kept) for order in permutations(range(len(kept.requests))))


def believing(policy: str, noise: str) -> Make:
    """Run a policy on predictions with this error (seed 0)."""

    def make(case: Case) -> Held:
        believed = predictions(noise, case.instance)
        return case.held(f"{policy}-{noise}", run_policy(case.instance, get_policy(policy), believed))

    return make


def lower_in_sum(*makes: Make) -> Predicate:
    """Whether the first schedule is lower than the second, in sum over a case; others are named beside them."""

    def judge(case: Case) -> Fails | str:
        rows, left = _tried(case, makes)
        sums = [sum(held.value for held in helds) for helds in zip(*rows, strict=True)]
        lower, higher = (sum(sign * (a.value - b.value) < 0 for a, b, *_ in rows) for sign in (1, -1))
        said = f"{rows[0][0].label} is lower on {lower}, higher on {higher}, the same on {len(rows) - lower - higher}"
        listing = ", ".join(
            f"{held.label} {float(total / sums[1]):.4f}" for held, total in zip(rows[0], sums, strict=True)
        )
        worst = max(rows, key=lambda row: ratio(row[0], row[1]))
        said += f"{left}; sums over that of {rows[0][1].label}: {listing}; at most {float(ratio(*worst[:2])):.3f} times"
        return said if sums[0] < sums[1] else Fails(said, worst[:2], None, (worst[0].instance,))

    return judge


def best_stays_best(candidates: Mapping[str, Make], best: Make | None = None) -> Predicate:
    """Whether what is nearest `best` on the first half of a case's instances is so on the second.

    Default of `best`: the best candidate of each instance.
    """

    def judge(case: Case) -> Fails | str:
        names = list(candidates)
        rows, left = _tried(case, (*candidates.values(), *([best] if best else [])))
        halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        means = {
            name: [sum(ratio(row[k], min(row, key=_value)) for row in half) / len(half) for half in halves]
            for k, name in enumerate(names)
        }
        first, second = (min(names, key=lambda name: means[name][half]) for half in (0, 1))
        order = sorted(names, key=lambda name: means[name][0])
        listing = ", ".join(f"{name} {float(means[name][0]):.4f} and {float(means[name][1]):.4f}" for name in order)
        wins = ", ".join(
            f"{name} {sum(row[k].value == min(row, key=_value).value for row in rows)}" for k, name in enumerate(names)
        )
        said = f"mean ratios to the best on the halves{left}: {listing}; as good as it on {wins}"
        if first == second:
            return said
        a, b = (names.index(name) for name in (first, second))
        worst = max(halves[1], key=lambda row: ratio(row[a], row[b]))
        return Fails(said, (worst[a], worst[b]), None, (worst[0].instance,))

    return judge


def _value(held: Held) -> Value:
    return held.value


def falls_with_memory(one: Make, other: Make, factors: Sequence[Fraction]) -> Predicate:
    """Whether the mean ratio of two schedules falls with memory, in multiples of the largest request."""

    def judge(case: Case) -> Fails | str:
        means, parts, everything = [], [], list[tuple[Held, ...]]()
        for factor in factors:
            largest = [max(request.peak for request in instance.requests) for instance in case.instances]
            pairs = zip(case.instances, largest, strict=True)
            sized = [with_machine(instance, memory=ceil(factor * peak)) for instance, peak in pairs]
            rows, left = _tried(Case(tuple(sized), case.deadline), (one, other))
            means.append(sum(ratio(*row) for row in rows) / len(rows))
            parts.append(f"{float(means[-1] - 1):.2%} at {float(factor):g}{left}")
            everything += rows
        said = f"the mean loss is {', '.join(parts)} times the largest request"
        worst = max(everything, key=lambda row: ratio(*row))
        return said if means == sorted(means, reverse=True) else Fails(said, worst, None, (worst[0].instance,))

    return judge


def _tried(case: Case, makes: tuple[Make, ...]) -> tuple[list[tuple[Held, ...]], str]:
    rows = []
    for instance in case.instances:
        try:
            row = [make(Case((instance,), case.deadline)) for make in makes]
        except Undecided:
            continue
        if None not in row:
            rows.append(tuple(held for held in row if held is not None))
    if not rows:
        raise Undecided("no slice was decided")
    missing = len(case.instances) - len(rows)
    return rows, f", {missing} left open" if missing else ""
