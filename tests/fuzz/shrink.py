"""Make what was found smaller for as long as it stays wrong in the same way."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from hypotheses.search.shrinking import smaller
from kvcore import Batch, Cost, Instance, Schedule
from kvcore.cost import CostFunction
from tests.fuzz.case import Case, Finding, Part, judge
from tests.fuzz.draw import FEATURES


def shrink(part: Part, finding: Finding, alive: Callable[[], None] = lambda: None) -> Finding:
    """Return a finding of the same kind that no step makes smaller, or what its part's tries have led to."""
    tries = part.tries
    again = True
    while again:
        again = False
        for case in simpler(finding.case):
            if size(case) >= size(finding.case):
                continue
            if not tries:
                return finding
            tries -= 1
            alive()
            found = judge(part, case, Counter())
            if found is not None and found.kind == finding.kind:
                finding, again = found, True
                break
    return finding


def size(case: Case) -> tuple[int, int, int, int]:
    """Return what shrinks: entries, and numbers and letters in them."""
    machine, requests = case.instance.machine, case.instance.requests
    plain = machine.model_dump() | {"memory": 0}
    switches = sum(plain[name] != value for name, value in PLAIN.items())
    features = sum(bool(getattr(f, name)) for f in case.instance.cost.functions for name in FEATURES)
    entries = sum(4 + 4 * len(r.segments) + (r.slo is not None) for r in requests) + switches + features
    handled = sum(call.handling != "free" for r in requests for call in r.calls)
    schedule = case.schedule.to_json() if case.schedule else ""
    content = json.dumps([_numbers(json.loads(case.instance.to_json())), _numbers(json.loads(schedule or "0"))])
    batches = len(case.schedule.batches) if case.schedule else 0
    return len(case.text or ""), entries + handled + batches, schedule.count('": '), sum(json.loads(content))


PLAIN: dict[str, Any] = {
    "block": 1, "host_memory": 0, "batch_tokens": None, "prefill_tokens": None, "batch_requests": None, "hybrid": True,
    "chunked": True, "evict": False, "partial": False, "pause": True,
}  # fmt: skip


def _numbers(node: Any) -> int:
    if isinstance(node, dict | list):
        return sum(_numbers(value) for value in (node.values() if isinstance(node, dict) else node))
    return abs(node) if isinstance(node, int) and not isinstance(node, bool) else 0


def simpler(case: Case) -> Iterator[Case]:
    """Yield cases with something less; some of them are no smaller by `size`, and are passed over."""
    if case.text is not None:
        yield from (replace(case, text=text) for text in shorter(case.text))
        return
    if case.schedule is not None:
        for j in range(len(case.schedule.batches)):
            yield replace(case, schedule=case.schedule.model_copy(update={"batches": case.schedule.batches[:j]}))
    yield from without_requests(case)
    if case.schedule is not None:
        yield from (replace(case, schedule=s) for s in smaller_schedules(case.schedule))
    for make in (simpler_machines, simpler_costs, simpler_requests):
        for changes in make(case.instance):
            try:
                yield case.of(case.instance.replace(**changes))
            except ValidationError:  # it cannot be carried out
                continue
    for instance in smaller(case.instance):
        if len(instance.requests) == len(case.instance.requests):
            names = {old.id: new.id for old, new in zip(case.instance.requests, instance.requests, strict=True)}
            yield _renamed(case, names).of(instance)
    if case.schedule is not None:
        yield from (replace(case, schedule=s) for s in earlier_schedules(case.schedule))


def shorter(text: str) -> Iterator[str]:
    """Yield the text (its first line is kept) without ever smaller pieces of it."""
    kind, _, content = text.partition("\n")
    length = len(content) // 2
    while length:
        for start in range(0, len(content), length):
            yield f"{kind}\n{content[:start]}{content[start + length :]}"
        length //= 2


def without_requests(case: Case) -> Iterator[Case]:
    requests = case.instance.requests
    for i in range(len(requests) * (len(requests) > 1)):
        kept = case.instance.replace(requests=requests[:i] + requests[i + 1 :])
        yield _renamed(case, {request.id: request.id for request in kept.requests}).of(kept)


def _renamed(case: Case, names: dict[str, str]) -> Case:
    """Return the case with the ids of its schedule renamed, and without those that have no name."""
    if case.schedule is None:
        return case
    batches = []
    for batch in case.schedule.batches:
        parts = {what: getattr(batch, what) for what in ("work", "drop", "swap_out", "swap_in")}
        kept = {what: {names[i]: k for i, k in of.items() if i in names} for what, of in parts.items()}
        if any(kept.values()):
            batches.append(Batch(start=batch.start, repeat=batch.repeat, **kept))
    return replace(case, schedule=case.schedule.model_copy(update={"batches": tuple(batches)}))


def smaller_schedules(schedule: Schedule) -> Iterator[Schedule]:
    def made(*batches: Batch) -> Schedule:
        return schedule.model_copy(update={"batches": batches})

    all_batches = schedule.batches
    for j, batch in enumerate(all_batches):
        before, after = all_batches[:j], all_batches[j + 1 :]
        yield made(*before, *after)
        if batch.repeat > 1:
            yield made(*before, batch.model_copy(update={"repeat": 1}), *after)
        for what in ("work", "drop", "swap_out", "swap_in"):
            for id, tokens in getattr(batch, what).items():
                rest = {i: k for i, k in getattr(batch, what).items() if i != id}
                yield made(*before, batch.model_copy(update={what: rest}), *after)
                if tokens > 1:
                    yield made(*before, batch.model_copy(update={what: rest | {id: tokens - 1}}), *after)


def earlier_schedules(schedule: Schedule) -> Iterator[Schedule]:
    """Yield the schedule with everything from some batch on earlier."""
    start = 0
    for j, batch in enumerate(schedule.batches):
        gap = batch.start - start
        for by in sorted({gap, gap // 2, 1} - {0}, reverse=True):
            moved = [b.model_copy(update={"start": b.start - by}) for b in schedule.batches[j:]]
            yield schedule.model_copy(update={"batches": (*schedule.batches[:j], *moved)})
        start = batch.start


def simpler_machines(instance: Instance) -> Iterator[dict[str, Any]]:
    machine = instance.machine
    changes = [{name: value} for name, value in (PLAIN | {"memory": None}).items() if getattr(machine, name) != value]
    limits = [(name, getattr(machine, name)) for name in PLAIN if type(getattr(machine, name)) is int]
    for change in [*changes, *({name: limit - 1} for name, limit in limits if limit > 1)]:
        with contextlib.suppress(ValidationError):  # prefill_tokens above batch_tokens
            yield {"machine": machine.replace(**change)}


def simpler_costs(instance: Instance) -> Iterator[dict[str, Any]]:
    functions = instance.cost.functions
    if functions != Cost.unit().functions:
        yield {"cost": Cost.unit()}
    for k, function in enumerate(functions):
        rest = functions[:k] + functions[k + 1 :]
        if rest:
            yield {"cost": Cost(rest)}
        for name, field in CostFunction.model_fields.items():
            plain, value = field.default, getattr(function, name)
            if value != plain:
                less = [plain] if name == "tokens_above" else sorted({plain, value - 1})
                for number in less:
                    simple = CostFunction(**(function.model_dump() | {name: number}))  # a copy would keep its `terms`
                    yield {"cost": Cost((*functions[:k], simple, *functions[k + 1 :]))}


def simpler_requests(instance: Instance) -> Iterator[dict[str, Any]]:
    requests = instance.requests
    for i, request in enumerate(requests):
        changes: list[dict[str, Any]] = []
        changes += [{"slo": None}] if request.slo is not None else []
        changes += [{"weight": 1}] if request.weight > 1 else []
        for k, segment in enumerate(request.segments):
            if segment.call is not None and segment.call.handling != "free":
                free = segment.replace(call=segment.call.replace(handling="free"))
                changes.append({"segments": (*request.segments[:k], free, *request.segments[k + 1 :])})
        for change in changes:
            yield {"requests": (*requests[:i], request.replace(**change), *requests[i + 1 :])}
