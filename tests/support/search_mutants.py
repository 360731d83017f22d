"""Planted errors in the exact search: one piece of it switched off, wrongly generalised, or moved by one.

`python -m tests.support.search_mutants [FIRST LAST]` looks for questions that catch each, and prints them.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from unittest.mock import patch

import numpy as np

from kvcore import objective_value, verify_schedule
from kvcore.cost import Features
from solvers.search import chains, layers, objectives, options, prices, problem, state, successors, table
from tests.support.clock import Clock
from tests.support.differential import MADE, question

search = import_module("solvers.search.search")  # the package has a function of this name

LOOKS = 2000
"""How often a search may look at its clock."""
MUTANTS: dict[str, list[tuple[object, str, Callable]]] = {}
"""By name, what is patched: an owner, an attribute, and what makes the wrong one of the right one."""


def plant(name, owner, attribute, make):
    """Add a mutant, or one more patch of it."""
    MUTANTS.setdefault(name, []).append((owner, attribute, make))


def after(change):
    """Call the original, then change its result: `change(result, *arguments)`."""
    return lambda original: lambda *arguments, **named: change(original(*arguments, **named), *arguments)


def before(change):
    """Change the positional arguments, then call the original."""
    return lambda original: lambda *arguments, **named: original(*change(*arguments), **named)


def in_place(change):
    """Let `__init__` run, then change the object."""

    def make(original):
        def init(self, *arguments, **named):
            original(self, *arguments, **named)
            change(self)

        return init

    return make


# --- rules of the machine ---------------------------------------------------------------------------------------------


def _limit(name, step):
    def change(self):
        limit = getattr(self, name)
        setattr(self, name, limit + step if limit < successors.UNLIMITED else limit)

    return in_place(change)


for _name in ("device_limit", "host_limit", "work_limit", "prefill_limit", "requests_limit"):
    for _step in (1, -1):
        plant(f"{_name} {_step:+d}", successors.Successors, "__init__", _limit(_name, _step))
plant("R5 both phases", successors.Successors, "__init__", in_place(lambda self: setattr(self, "hybrid", True)))
plant("R2 returns early", table, "passed", before(lambda s, ticks, *rest: (s, ticks + 1, *rest)))
plant("R3 any part", options.Options, "chunks", lambda _: lambda self, device, missing: list(range(1, missing + 1)))
plant("R4 works with KV on the host", options.Options, "rest", after(lambda o, *_: o._replace(host=0)))
plant("R4 works after an eviction", options.Options, "rest", after(lambda o, *_: o._replace(needs_ready=False)))
plant("R5 pauses", options.Options, "grown", after(lambda s, *_: s._replace(bound=False)))
plant("R5 never pauses", options.Options, "grown", after(lambda s, *_: s._replace(bound=True)))
plant("R8 evicts", options.Options, "may_evict", lambda _: lambda self, s: s.device + s.host > 0 and not s.due)
plant("R8 never evicts", options.Options, "may_evict", lambda _: lambda self, s: s.device + s.host > 0 and s.window)
plant("R8 any amount", options.Options, "amounts", lambda _: lambda self, n, ok=True: range(n + 1) if ok else (0,))
plant("R8 all or nothing", options.Options, "amounts", lambda _: lambda self, n, ok=True: (0, n) if ok and n else (0,))
plant("R9 orders nothing", options.Options, "ordered", lambda _: lambda self, s: state.STAY)
plant("R9 no window", options.Options, "generated", after(lambda s, *_: s._replace(window=False)))
plant(
    "R9 every call is free",
    options.Options,
    "generated",
    after(lambda s, *_: s._replace(window=s.status == 2, due=False)),
)
plant("R9 a window stays open", options.Options, "grown", after(lambda s, _, old, __: s._replace(window=old.window)))
plant("no transfer there and back", options.Options, "there_and_back", lambda _: lambda self, s: ())
plant("no batch for drops", options.Options, "for_refill", lambda _: lambda self, resting: [])

# --- cost of a batch --------------------------------------------------------------------------------------------------


def _feature(name):
    def change(features, *_):
        value = getattr(features, name)
        wrong = 0 if name in ("busy", "any_decode", "any_prefill") else value + (value > 0)
        return features._replace(**{name: wrong})

    return after(change)


for _name in Features._fields:
    plant(f"cost of {_name}", state.LocalOption, "features", _feature(_name))
plant("batches last longer", successors.Successors, "durations", after(lambda ticks, *_: ticks + 1))

# --- reductions, wrongly generalised ----------------------------------------------------------------------------------


def _rule(name, value):
    return after(lambda rules, *_: replace(rules, **{name: value}))


for _name in ("few_chunks", "lazy", "forget", "swap", "finish", "maximal"):
    plant(f"always {_name}", problem, "valid_rules", _rule(_name, True))
for _name in ("last_token_chunk", "single_chunk", "early_drop", "drop_and_work", "makes_batches", "transfer_only"):
    plant(f"never {_name}", problem, "valid_rules", _rule(_name, False))


def _blind(name):
    """Let the comparison of states see zeros in a column."""

    def make(original):
        def wrong(found, states):
            column = found.table.state.data[name]
            found.table.state.data[name] = np.zeros_like(column)
            try:
                return original(found, states)
            finally:
                found.table.state.data[name] = column

        return wrong

    return make


def _untimed(original):
    def wrong(found, states):
        with patch.object(type(found.objective), "timed", False):
            return original(found, states)

    return wrong


plant("calls that return later dominate", layers, "undominated", _blind("remaining"))
plant("all local states are alike", layers, "undominated", _blind("alike"))
plant("other ticks dominate", layers, "undominated", _untimed)
plant("every return is fresh", table, "passed", lambda original: lambda s, ticks, *_: original(s, ticks, True))
plant("no machine waits", problem.Problem, "_waits_in_vain", lambda _: lambda self, rows: np.ones(len(rows), bool))

# --- bounds -----------------------------------------------------------------------------------------------------------


def _chain(field):
    def change(chain, _, s):
        value = getattr(chain, field)
        more = tuple(v + 8 for v in value) if field == "loads" else value + 1
        return chain if s.status == state.DONE else chain._replace(**{field: more})

    return after(change)


for _name in ("completion", "first", "batches", "tokens", "area", "loads"):
    plant(f"chain {_name}", chains.Chains, "of", _chain(_name))
plant("cutoff", layers.Pass, "cutoff", lambda original: property(lambda self: original.fget(self) - self.guide.unit))
plant("bound of a pass", layers.Pass, "bound", after(lambda bound, *_: bound + 1))
plant("f", layers.Guide, "f", after(lambda f, self, *_: f + self.unit))
for _name, _change in {
    "prices that are not paid": lambda self: setattr(self, "paid", 0 * self.paid),
    "cheapest ways": lambda self: setattr(self, "values", self.values + 64),
}.items():
    plant(_name, search, "FIRST_WIDTHS", lambda _: ())
    plant(_name, prices.PricedGuide, "__init__", in_place(_change))
plant("what options take", search, "FIRST_WIDTHS", lambda _: ())
plant("what options take", prices.Economy, "_use", after(lambda use, *_: use + 1))

# --- objectives -------------------------------------------------------------------------------------------------------


def _wait_from_the_start(original):
    def wait(self, start, ticks):
        return start.cost + self.table.state["rate"][start.rows].sum(axis=1) * ticks

    return wait


plant("waiting counts before the arrival", objectives.Sum, "wait", _wait_from_the_start)
plant("flow times from tick 0", objectives.MaxFlow, "_arrivals", after(lambda arrivals, *_: 0 * arrivals))
plant("waiting is busy", objectives.BusyTime, "wait", lambda _: lambda self, start, ticks: start.cost + ticks)
plant("waiting takes no time", objectives.Makespan, "wait", lambda _: lambda self, start, ticks: start.cost)
for _k, _name in enumerate(("first_by", "done_by", "between")):
    for _step in (1, -1):
        _moved = after(lambda d, *_, k=_k, step=_step: tuple(v + step * (i == k) for i, v in enumerate(d)))
        plant(f"deadline {_name} {_step:+d}", problem, "_deadlines", _moved)
plant("weights are ignored", problem.Problem, "_kind", after(lambda kind, *_: replace(kind, rate=min(kind.rate, 1))))


def is_caught(name, asked):
    """Whether the search with the error planted gives a wrong answer (or none)."""
    with ExitStack() as stack:
        for owner, attribute, make in MUTANTS[name]:
            original = owner.__dict__[attribute] if isinstance(owner, type) else getattr(owner, attribute)
            stack.enter_context(patch.object(owner, attribute, make(original)))
        return is_wrong(asked)


def is_wrong(asked):
    """Whether the search, as it is now, does not prove the optimum with a valid schedule."""
    instance, objective = asked.instance, asked.objective
    try:
        with patch.object(search, "time", Clock()):
            found = search.search(instance, objective, time_limit=LOOKS)
        value = objective_value(verify_schedule(instance, found.schedule), objective)
    except Exception:  # whatever breaks is noticed
        return True
    return (value, found.bound) != (asked.optimum, asked.optimum)


def main(first="0", last="600"):
    alive = set(MUTANTS)
    for asked in filter(None, map(question, [*MADE, *range(int(first), int(last))])):
        for name in sorted(alive):
            if is_caught(name, asked):
                alive.remove(name)
                print(f"    {name!r}: {asked.seed},", flush=True)
    for name in sorted(alive):
        print(f"    {name!r}: None,")


if __name__ == "__main__":
    main(*sys.argv[1:])
