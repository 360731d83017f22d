"""Every policy on random instances: a valid schedule, or the refusal that is documented."""

from collections import Counter
from collections.abc import Iterator
from random import Random

from heuristics import PolicyError, Unsuited, get_policy, trace_policy
from heuristics.engine.predictions import predictions
from heuristics.registry import POLICIES, STARTERS
from kvcore import OBJECTIVES, objective_value, verify_schedule
from tests.fuzz.case import Case, Part, Wrong
from tests.fuzz.draw import TRAITS, medium, tiny, traits
from tests.support.drawer import crowded_instance, draw_instance

SOME = 12
"""Policies that each case is for; the others have theirs."""


def make(draw: Random) -> Iterator[Case]:
    instance = draw.choice([
        lambda: crowded_instance(draw.randrange(2**30), most=7), lambda: draw_instance(draw),
        lambda: tiny(draw)[1], lambda: medium(draw)[1],
    ])()  # fmt: skip
    yield Case(instance, draw.choice(list(OBJECTIVES)), draw.randrange(2**30))


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where a policy fails, or its schedule or its value is not what the referee says."""
    draw = Random(case.seed)
    believed = draw.choice([None, None, predictions("noise:0.5", case.instance, draw.randrange(1000))])
    for name in draw.sample(sorted(POLICIES), SOME):
        try:
            trace = trace_policy(case.instance, get_policy(name), believed)
        except Unsuited as refused:
            if get_policy(name) in STARTERS:
                raise Wrong(f"policy {name} is unsuited and never may be", refused) from None
            seen[f"unsuited {name}"] += 1
            continue
        except PolicyError as error:
            if get_policy(name) not in STARTERS and documented(case, error, believed is not None):
                seen[f"documented R{error.rule}"] += 1
                continue
            why = "waits although nothing is to come" if "nothing is to come" in str(error) else f"R{error.rule}"
            raise Wrong(f"policy {name} fails: {why}", error) from None
        again = verify_schedule(case.instance, trace.schedule)
        if objective_value(again, case.objective) != objective_value(trace, case.objective):
            raise Wrong(f"policy {name}: the engine and the referee give different values")
        seen[f"policy {name}"] += 1
    seen["predictions"] += believed is not None
    seen.update(traits(case.instance, case.objective))


def documented(case: Case, error: PolicyError, guessed: bool) -> bool:
    """Whether `docs/policies.md` says so: ordered swaps fill the host; wrong predictions need a machine that evicts."""
    machine = case.instance.machine
    ordered = any(call.handling == "swap" for request in case.instance.requests for call in request.calls)
    return (error.rule == 7 and ordered and machine.host_memory is not None) or (guessed and not machine.evict)


REACH = TRAITS | {f"policy {name}" for name in POLICIES} | {"predictions", "documented R7"}
PART = Part("policies", make, check, frozenset(REACH), tries=1500)
