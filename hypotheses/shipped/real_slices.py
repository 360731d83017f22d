"""What holds on slices of real traces: handling, order, chunks, gates, predictions; each trace a hypothesis."""

from fractions import Fraction
from functools import partial

from heuristics import with_min_waste_handlings
from hypotheses import Hypothesis, tallies
from hypotheses.hypothesis import Predicate
from hypotheses.predicates import optimal, run, within
from hypotheses.slices import LONG, SMALL, one_by_one, together
from hypotheses.small_instances import with_machine
from kvcore.instance import Instance

EVICTING = partial(with_machine, evict=True)
POLICIES = (
    "fcfs", "sjf", "sjf-api", "mars-order", "memory-area", "srpt", "vllm-v1", "sarathi", "infercept", "mars",
    "augserve",
)  # fmt: skip
BUDGETS = (256, 512, 1024, 2048, 4096)
CALLS = ("mixture", "agents")


def preserving(instance: Instance) -> Instance:
    return instance.with_calls_handled("preserve")


def budget(tokens: int) -> partial[Instance]:
    return partial(with_machine, batch_tokens=tokens)


def small(
    statement: str, source: str, predicate: Predicate, trace: str, states: str = "refuted", note: str = ""
) -> Hypothesis:
    """Return a claim of each small slice."""
    return Hypothesis(statement, source, states, one_by_one(SMALL, trace), predicate, note=note, every=True)


REFUTED = {("index", "agents"), ("kv-time", "agents"), ("policy", "agents")}  # they hold on others


def expected(claim: str, trace: str) -> str:
    """Return the verdict that is known."""
    return "refuted" if (claim, trace) in REFUTED else "proved"


CHUNK = {"agents": budget(2048)}  # what a batch may process, where it is not 512 tokens

HYPOTHESES = {
    **{
        f"real-min-waste-{trace}": small(
            "Handling each call as wastes least is part of some optimal schedule (total flow time).",
            "InferCept (arXiv 2402.01869), equations (1) to (5), on its own trace and on another",
            within(
                optimal("least-waste", with_min_waste_handlings), 1, optimal("free"),
                "with the least waste of each call {}, the optimum is {}",
            ),
            trace,
        )
        for trace in CALLS
    },
    "real-min-waste-or-preserve-agents": small(
        "Handling each call as wastes least is never worse (optimal total flow time) than preserving every call.",
        "InferCept (arXiv 2402.01869): preserving is one of its choices",
        within(
            optimal("least-waste", with_min_waste_handlings), 1, optimal("preserve", preserving),
            "with the least waste of each call {}, preserving every call {}",
        ),
        "agents",
        "no counterexample",
    ),
    "real-preserve-agents": small(
        "Preserving the KV in every call is part of some optimal schedule (total flow time).",
        "what engines do that know no calls but keep a session's KV",
        within(optimal("preserve", preserving), 1, optimal("free"), "preserving has {}, the optimum is {}"),
        "agents",
    ),
    "real-min-waste-curve-agents": Hypothesis(
        statement="The more memory there is, the less is lost on average by handling each call as wastes least.",
        source="InferCept (arXiv 2402.01869): the loss of its rule by load",
        states="proved",
        family=together(SMALL, "agents", 20),
        predicate=tallies.falls_with_memory(
            optimal("least-waste", with_min_waste_handlings), optimal("free"),
            [Fraction(k, 2) for k in (2, 3, 4)],
        ),
    ),
    "real-swap-mixture": small(
        "Room on the host for half the largest request does not lower the optimal total flow time: no swap is needed.",
        "InferCept (arXiv 2402.01869): how often is swapping optimal?",
        within(
            optimal("no-host", partial(with_machine, host_memory=0)), 1, optimal("free"),
            "without the host {}, with it {}",
        ),
        "mixture",
        "no counterexample",
        "A refill takes a part of one slot of 1.6 s: where recomputing is so cheap, no swap is needed.",
    ),
    **{
        f"real-evict-{trace}": small(
            "Evicting KV outside calls does not lower the optimal total flow time.",
            "engines evict when memory runs out; MARS and MC-SF never do",
            within(optimal("no-evict"), 1, optimal("evict", EVICTING), "without eviction {}, with it {}"),
            trace,
            note="A refill takes a part of one slot. With eviction switched on, a schedule of a slice need not be "
            "one of the real requests.",
        )
        for trace in SMALL
    },
    **{
        f"real-handling-or-order-{trace}": Hypothesis(
            statement="From first come, first served with every call preserved, freeing the handling (one for all "
            "calls, or the least waste of each) lowers the total flow time more than freeing the order.",
            source="InferCept changes the handling, MARS and LAMPS the order too",
            states="proved",
            family=together(SMALL, trace),
            predicate=tallies.lower_in_sum(
                tallies.best_of("handling", tallies.any_handling), tallies.best_of("order", tallies.any_order),
                run("fcfs", "neither", preserving), optimal(),
            ),
        )
        for trace in CALLS
    },
    **{
        f"real-gate-{trace}": Hypothesis(
            statement="vLLM V1's gate, which admits a request only where all its tokens fit, lowers the mean latency.",
            source="vLLM, vllm/v1/core/sched/scheduler.py (scheduler_reserve_full_isl)",
            states="proved",
            family=together(LONG, trace),
            predicate=tallies.lower_in_sum(
                run("vllm-v1", change=CHUNK.get(trace)), run("vllm-v1-first-chunk", change=CHUNK.get(trace))
            ),
        )
        for trace in LONG
    },
    **{
        f"real-budget-{trace}": Hypothesis(
            statement="The token budget of a batch (256 to 4096) with which vLLM V1 is nearest the best of them on "
            "half of the slices is so on the other half.",
            source="Sarathi-Serve and INFERMAX fix one; is one ever best?",
            states="proved",
            family=together(LONG, trace),
            predicate=tallies.best_stays_best(
                {f"{tokens}": run("vllm-v1", f"{tokens}", budget(tokens)) for tokens in BUDGETS}
            ),
        )
        for trace in ("mixture", "conversations")
    },
    **{
        f"real-index-{trace}": Hypothesis(
            statement="The index whose order, by Figure 1's rule, is nearest the optimum on half of the slices is the "
            "nearest on the other half.",
            source="one of our own: which simple index explains the optimal order best?",
            states=expected("index", trace),
            family=together(SMALL, trace),
            predicate=tallies.best_stays_best({name: tallies.in_order(name) for name in tallies.INDICES}, optimal()),
        )
        for trace in SMALL
    },
    **{
        f"real-kv-time-{trace}": Hypothesis(
            statement="Least KV-time first has a lower mean latency than fewest tokens first, both by Figure 1's rule.",
            source="MARS (arXiv 2410.18248) ranks by memory over time; shortest job first by length",
            states=expected("kv-time", trace),
            family=together(SMALL, trace),
            predicate=tallies.lower_in_sum(
                tallies.in_order("KV-time"), tallies.in_order("tokens"), optimal()
            ),
        )
        for trace in ("conversations", "agents")
    },
    "real-predictions-conversations": Hypothesis(
        statement="Predictions with errors of half (a standard deviation) of each length and call raise the total "
        "flow time of srpt by 10 % at most.",
        source="MARS and LAMPS study such errors",
        states="refuted",
        family=one_by_one(LONG, "conversations"),
        predicate=within(
            tallies.believing("srpt", "noise:0.5"), Fraction(11, 10), run("srpt"), "with errors {}, with exact ones {}"
        ),
        every=True,
    ),
    **{
        f"real-policy-{trace}": Hypothesis(
            statement="The policy that is nearest the optimum on half of the slices is the nearest on the other half.",
            source="one of our own: may one tune on a part of a workload?",
            states=expected("policy", trace),
            family=together(SMALL, trace),
            predicate=tallies.best_stays_best(
                {name: run(name, change=EVICTING) for name in POLICIES}, optimal(change=EVICTING)
            ),
        )
        for trace in SMALL
    },
}  # fmt: skip
