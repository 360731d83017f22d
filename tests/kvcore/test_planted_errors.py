"""Planted errors in the searches that a checker runs again: each says something false of a tiny instance."""

import random
from itertools import islice, product

import numpy as np

from kvcore import InvalidSchedule, objective_value, verify_schedule
from kvcore.certificates import InvalidCertificate, events, frontier, slot_graph, slot_search
from kvcore.certificates.options import RequestOptions
from kvcore.certificates.request_graph import RequestGraph
from kvcore.certificates.slot_graph import LocalGraphs
from kvcore.certificates.slot_search import SlotSearch
from kvcore.certificates.slots import Slots
from kvcore.cost import CostFunction
from kvcore.limits import LIMITS
from kvcore.metrics import scale_of
from tests.support.boundaries import find
from tests.support.differential import COVERING, MADE, questions
from tests.support.plain import FRONTIER, LABELS, plain
from tests.support.random_proofs import random_slots

PLACES = np.arange(len(LIMITS))


def after(owner, name, change):
    """Return a patch that changes a result: `change(result, *arguments)`."""
    original = getattr(owner, name)
    return owner, name, lambda *given, **named: change(original(*given, **named), *given)


def moved(row, step):
    """Return what moves one of the limits that there are."""
    return lambda limits, *_: (most := np.array(limits)) + step * (row == PLACES) * (most > 0) * (most < 2**40)


def asked(slots=False):
    """Return questions of every trait, and some that catch what these do not; those that `slots` takes."""
    every = questions([*MADE, *COVERING, 20, 48, 87, 152, 886])
    return [each for each in every if not slots or Slots.takes.why_not("slots", each.instance, each.objective) is None]


def survivors(mutants, is_wrong, monkeypatch, questions):
    """Return the errors with which every question is answered rightly."""

    def is_caught(mutant):
        with monkeypatch.context() as patch:
            patch.setattr(*mutant)
            return any(map(is_wrong, questions))

    assert not any(map(is_wrong, questions))
    return [name for name, mutant in mutants.items() if not is_caught(mutant)]


# --- both -------------------------------------------------------------------------------------------------------------
def led(change):
    """Return a patch of the states to which options lead."""
    return after(RequestGraph, "_steps", lambda steps, *_: ((o, end if o is None else change(end)) for o, end in steps))


GRAPH = {
    "calls are over at once": led(lambda end: end._replace(wait=0)),
    "KV stays on the device": led(lambda end: end._replace(device=end.device + end.host, host=0)),
    "KV is lost": led(lambda end: end._replace(device=0)),
    "what is due may wait": led(lambda end: end._replace(mark=0)),
    "more is left": after(RequestGraph, "least", lambda left, *_: 2 * left),
    "one token is not needed": after(RequestOptions, "left", lambda left, *_: max(0, left - 1)),
    "one option is lost": after(RequestGraph, "allowed", lambda options, *_: islice(options, 1, None)),
}


# --- events -----------------------------------------------------------------------------------------------------------
def ends_wrongly(asked):
    """Whether the search does not end with the optimum and a schedule of that value."""
    try:
        found = find(asked.instance, asked.objective, 5000)
        trace = None if found.schedule is None else verify_schedule(asked.instance, found.schedule)
    except (AssertionError, InvalidSchedule):  # it notices what is inconsistent
        return True
    value = None if trace is None else objective_value(trace, asked.objective)
    return (found.bound, value) != (asked.optimum, asked.optimum)


def with_(name, change):
    return after(events, "setting", lambda s, *_: s._replace(**{name: change(getattr(s, name))}))


def interpreted(name, wrong):
    """Return a patch of the search as plain Python, with one of its functions replaced."""
    module = plain(LABELS, FRONTIER)
    setattr(module, name, wrong)
    module.add = module.labels.adding(module.covers, module.least_through)
    return events, "frontier", module


def cost_without(name):
    line = events.line_of
    return events, "line_of", lambda f: line(f.model_copy(update={name: None if name == "tokens_above" else 0}))


EVENTS = {
    **{f"{limit.name} {step:+d}": with_("limits", moved(k, step))
       for k, limit in enumerate(LIMITS) for step in (1, -1)},
    **{f"SLO {k} {step:+d}": with_("slo", lambda slo, k=k, step=step: slo + step * (slo >= 0) * (PLACES[:3] == k))
       for k in range(3) for step in (1, -1)},
    **{f"cost of {name}": cost_without(name) for name in CostFunction.model_fields if name not in ("divisor", "busy")},
    "both phases at once": with_("hybrid", lambda _: True),
    "ages are equal": with_("watched", lambda _: False),
    "waits for events alone": with_("every_tick", lambda _: False),
    "rates": with_("rate", lambda rate: 0 * rate),
    "ticks that are left": with_("ticks", lambda ticks: ticks + (ticks > 0)),
    "shares that are left": with_("shares", lambda shares: 2 * shares),
    "all weigh the same": after(events, "_seen", lambda request, *_: request.replace(weight=1)),
    "batches last longer": interpreted("duration", lambda *given: frontier.duration(*given) + 1),
    "more is left": interpreted("least", lambda *given: frontier.least(*given) + 1),
    "all of a kind are twins": interpreted("is_twin", lambda s, row, j: s.group[j] == s.group[j - 1]),
    "later is as good": interpreted("covers", lambda s, f, at, its: (f.rows[at] == f.rows[its]).all()),
}  # fmt: skip


def test_errors_in_the_search_over_batch_boundaries_are_caught(monkeypatch):
    assert survivors(EVENTS | GRAPH, ends_wrongly, monkeypatch, asked()) == []


# --- slots ------------------------------------------------------------------------------------------------------------
def proves_wrongly(asked):
    """Whether random prices prove more than the optimum, or not the optimum."""
    target = int(asked.optimum * scale_of(asked.instance.requests, asked.objective))
    for seed, above in product(range(4), (0, 1)):
        proof = random_slots(random.Random(seed), asked.instance, asked.objective, target + above, strict=True)
        try:
            proof.value(asked.instance, asked.objective)
            proved = True
        except InvalidCertificate as refused:
            proved = "finds an end" not in str(refused)
        if proved == bool(above):
            return True
    return False


LOCAL = {
    **{f"{limit.name} {step:+d}": after(slot_graph, "limits_of", moved(k, step))
       for k, limit in enumerate(LIMITS) for step in (1, -1)},
    "what ends is free": after(LocalGraphs, "_ends", lambda ends, *_: ends & False),
    "all weigh the same": after(LocalGraphs, "rate_of", lambda rate, *_: min(rate, 1)),
    "calls take no time": after(
        LocalGraphs, "_timed", lambda request, *_: request.with_calls(lambda call: call.replace(duration=0))),
    "all states are as good": after(slot_graph, "simulation", lambda good, *_: np.ones_like(good)),
    "worse states are as good": after(slot_graph, "simulation", lambda good, *_: good.T.copy()),
    "options are lost": after(slot_graph, "kept_options", lambda kept, *_: kept & (np.arange(len(kept)) % 7 > 0)),
}  # fmt: skip
"""Of the graphs that the search over slots and its dual have."""
SLOTS = {
    **{f"{limit.name} does not bind":
       after(LocalGraphs, "_binding", lambda row, *_, k=k: np.where(k == PLACES, -1, row))
       for k, limit in enumerate(LIMITS)},
    "prices of what does not bind": (LocalGraphs, "folded", lambda self, prices: prices),
    "prices are not paid": after(SlotSearch, "_supply", lambda supply, *_: supply // 2),
    "values": after(slot_search, "values", lambda values, *_: values + 1),
    "what works ends": after(LocalGraphs, "_ends", lambda ends, self, *_: ends | [o.work > 0 for o in self.options]),
    "all is there at once": after(LocalGraphs, "_timed", lambda request, *_: request.replace(arrival=0)),
    "deadlines": after(LocalGraphs, "deadlines", lambda ticks, *_: [tick - 1 for tick in ticks]),
    "base": after(LocalGraphs, "base", lambda base, *_: base - 1),
    "states are lost": after(slot_search, "dominated", lambda cut, *_: cut | (np.arange(len(cut)) > 0)),
}  # fmt: skip


def test_errors_in_the_search_over_slots_are_caught(monkeypatch):
    assert survivors(SLOTS | LOCAL | GRAPH, proves_wrongly, monkeypatch, asked(slots=True)) == []
