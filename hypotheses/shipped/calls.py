"""What the handling and the length of calls do to the optimum, and to policies."""

from itertools import product
from operator import eq, ge

from heuristics import with_min_waste_handlings
from hypotheses import Case, Fails, Hypothesis, drawn, enumerated
from hypotheses import small_instances as small
from hypotheses.case import Held
from hypotheses.predicates import compared, never_hurts, optimal


def fixed(case: Case) -> list[Held]:
    return [case.optimum(instance, label="fixed") for instance in small.fixed_handlings(case.instance)]


def best_fixed(case: Case) -> Held:
    return min(fixed(case), key=lambda held: held.value)


def one_is_enough(case: Case) -> Fails | None:
    optima = fixed(case)
    best = min(held.value for held in optima)
    for without in ("discard", "swap"):
        rest = [o for o in optima if all(c.handling != without for r in o.instance.requests for c in r.calls)]
        if min(held.value for held in rest) == best:
            return None
    shown = next(held for held in optima if held.value == best)
    return Fails(f"{best} takes a discard and a swap; with one kind alone it is more", (shown,))


HOST = small.CALLS_HOST
FASTER = (small.with_faster_call, "a call that is one tick faster", ("slow", "fast"))

HYPOTHESES = {
    "always-offload": Hypothesis(
        statement="Swapping out at every call is never worse (optimal total flow time) than preserving at every call.",
        source="vLLM issue 46: what free swapping would give",
        states="refuted",
        family=enumerated(
            "2 requests with a call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, a host that holds all, "
            "one tick a batch and one for each token moved, every memory that matters",
            lambda: small.calling_family((1, 3), HOST.replace(host_memory=None), small.SWAP_COST),
        ),
        predicate=compared(
            optimal("preserve", lambda instance: instance.with_calls_handled("preserve")), ge,
            optimal("swap", lambda instance: instance.with_calls_handled("swap")),
            "preserving every call has {}, swapping every call {}",
        ),
    ),
    "handling-first": Hypothesis(
        statement="Fixing preserve, discard or swap for each call before scheduling loses nothing: the best such "
        "choice attains the optimal total flow time of free handling.",
        source="MARS (arXiv 2410.18248), Section 3: the handling is chosen first; LAMPS, Section 4",
        states="proved",
        family=enumerated(
            "2 requests with a call each of 1 or 3 ticks, prompts 1 or 2, one token before and after, 2 tokens a "
            "batch, 2 tokens on the host, every memory that matters",
            lambda: small.calling_family((1, 3), HOST, decodes=(1,)),
        ),
        predicate=compared(
            best_fixed, eq, optimal("free"), "the best handlings fixed beforehand give {}, free handling {}"
        ),
    ),
    "min-waste": Hypothesis(
        statement="Handling each call as wastes least is part of some optimal schedule (total flow time).",
        source="InferCept (arXiv 2402.01869), equations (1) to (5)",
        states="refuted",
        family=enumerated(
            "2 requests with a call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, 2 tokens on the host, "
            "every memory that matters",
            lambda: small.calling_family((1, 3), HOST),
        ),
        predicate=compared(
            optimal("least-waste", with_min_waste_handlings), eq, optimal("free"),
            "with the least waste of each call {}, the optimum is {}: {:.3f} times",
        ),
    ),
    "never-discard-and-swap": Hypothesis(
        statement="No instance needs both discard and swap: with preserve and one of the two, the best fixed handlings "
        "attain the best of all three (total flow time).",
        source="one of our own, on the three handlings of InferCept (arXiv 2402.01869)",
        states="refuted",
        family=enumerated(
            "a request of prompt 1 and 2 tokens before its call, and one of 3 and 3, calls of 3 or 4 ticks, one token "
            "after; 2 tokens a batch, 2 tokens on the host, every memory that matters",
            lambda: (
                small.calling([(1, 2, one, 0, 1), (3, 3, two, 0, 1)], HOST.replace(memory=memory))
                for one, two, memory in product((3, 4), (3, 4), range(6, 9))
            ),
        ),
        predicate=one_is_enough,
    ),
    "offload-optimum": Hypothesis(
        statement="Room for 2 tokens on the host never raises the optimal total flow time: offloading is optional.",
        source="common sense",
        states="proved",
        family=enumerated(
            "2 requests with a free call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, every memory that "
            "matters",
            lambda: small.calling_family((1, 3), small.CALLS),
        ),
        predicate=never_hurts(
            lambda instance: small.with_machine(instance, host_memory=2), "room on the host", ("no-host", "host")
        ),
    ),
    "faster-call-optimum": Hypothesis(
        statement="A first call that returns one tick earlier never raises the optimal total flow time.",
        source="docs/semantics.md: a shorter call breaks no rule",
        states="proved",
        family=enumerated(
            "2 requests with a free call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, no room on the host, "
            "every memory that matters",
            lambda: small.calling_family((1, 3), small.CALLS),
        ),
        predicate=never_hurts(*FASTER),
    ),
    **{
        f"faster-call-{policy}": Hypothesis(
            statement=f"A first call that returns one tick earlier never raises the total flow time of {policy}.",
            source="common sense",
            states="refuted",
            family=drawn(
                "3 requests, each with 1 free call at most, 4 tokens a batch, eviction, room on the host",
                1000,
                lambda draw, name: small.drawn_instance(draw, name, small.EVICTING),
            ),
            predicate=never_hurts(*FASTER, policy),
        )
        for policy in ("fcfs", "infercept", "mars", "vllm")
    },
}  # fmt: skip
