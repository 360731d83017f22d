"""What is believed of schedules in the theory model: lists, orders, restarts; MC-SF and Sorted-F beside the optimum."""

from fractions import Fraction
from functools import partial
from itertools import permutations
from operator import eq, le

from hypotheses import Case, Fails, Family, Hypothesis, drawn, enumerated
from hypotheses import small_instances as small
from hypotheses.case import Held
from hypotheses.predicates import average_ratio_within, compared, optimal, run, within
from workloads.builtin import builtin_instance


def best_list(case: Case) -> Held:
    instance = case.instance
    lists = (small.earliest_starts(instance, order) for order in permutations(range(len(instance.requests))))
    starts = min(lists, key=lambda starts: small.flow_time(instance, starts))
    return case.held("best-list", small.starting_at(instance, starts))


def best_in_order(case: Case) -> Held:
    return case.held("in-order", small.starting_at(case.instance, small.best_starts_in_order(case.instance)))


def shorter_is_no_worse(case: Case) -> Fails | None:
    long = case.policy("mc-sf", label="longer")
    assert long is not None
    for i in range(len(case.instance.requests)):
        shorter = small.with_shorter_output(case.instance, i)
        short = None if shorter is None else case.policy("mc-sf", shorter, label="shorter")
        if short is not None and short.value > long.value:
            id = case.instance.requests[i].id
            return Fails(f"{long.value} becomes {short.value} when {id} generates one token less", (long, short))
    return None


def claim(name: str, arrivals: str, limit: str, states: str) -> Hypothesis:
    return Hypothesis(
        statement=f"On the theory family (8 requests, M = 12, {arrivals}, seeds 0 to 7), the ratio of MC-SF's total "
        f"flow time to the optimum is {limit} on average, or less.",
        source=f"Jaillet et al. (arXiv 2502.07115): {limit} on average, with 40 to 60 requests",
        states=states,
        family=Family(
            f"{name} with seeds 0 to 7, as one case",
            lambda: [tuple(builtin_instance(f"{name},seed={seed}") for seed in range(8))],
            complete=True,
        ),
        predicate=average_ratio_within("mc-sf", Fraction(limit)),
        note="Smaller instances than those of the paper, whose optima are open.",
    )


HYPOTHESES = {
    "equal-prompts-shortest-output": Hypothesis(
        statement="With equal prompts, some optimal schedule (total flow time) starts no request before one of a "
        "shorter output.",
        source="shortest output first, as in MC-SF: Jaillet et al. (arXiv 2502.07115)",
        states="refuted",
        family=enumerated(
            "the theory model: 2 to 4 requests at tick 0 with prompts of 1, outputs 1 to 4, all memories",
            lambda: small.plain_family((2, 3, 4), (1,), range(1, 5)),
        ),
        predicate=compared(
            best_in_order, eq, optimal(), "in order of output length at best {}, the optimum is {}"
        ),
    ),
    "restarting-gains-nothing": Hypothesis(
        statement="In the theory model, where a refill costs no more than a decode, dropping KV and recomputing it "
        "never lowers the optimal total flow time.",
        source="policies that never evict (Jaillet et al., arXiv 2502.07115) against those that restart "
        "(arXiv 2601.22996)",
        states="refuted",
        family=enumerated(
            "the theory model: 2 to 4 requests at tick 0, prompts 1 or 2, outputs 1 or 3, every memory that matters",
            lambda: small.plain_family((2, 3, 4), (1, 2), (1, 3)),
        ),
        predicate=compared(
            optimal("never-evicting"), le, optimal("evicting", partial(small.with_machine, evict=True)),
            "never evicting has {}, evicting {}",
        ),
    ),
    "serial-list": Hypothesis(
        statement="Some optimal schedule (total flow time) is a serial list schedule: requests in some order, each "
        "placed at its earliest fit.",
        source="a habit of list scheduling; the theory model of Jaillet et al. (arXiv 2502.07115)",
        states="refuted",
        family=enumerated(
            "the theory model: 2 to 4 requests at tick 0, prompts 1 or 2, outputs 2 or 5, every memory that matters",
            lambda: small.plain_family((2, 3, 4), (1, 2), (2, 5)),
        ),
        predicate=compared(best_list, eq, optimal(), "the best list schedule has {}, the optimum {}"),
        note="Waiting although a request fits staggers the ends.",
    ),
    "shorter-output-mc-sf": Hypothesis(
        statement="A request that generates one token less never raises the total flow time of MC-SF, its own "
        "included.",
        source="one of our own",
        states="refuted",
        family=drawn(
            "the theory model: 4 requests at tick 0, prompts and outputs of 1 to 4, memory up to twice the largest "
            "peak",
            2000,
            lambda draw, name: small.drawn_plain(draw, 4, 4),
        ),
        predicate=shorter_is_no_worse,
    ),
    "smallest-volume-first": Hypothesis(
        statement="Where no request needs more than half the memory, smallest volume first is within 5 times the "
        "optimal total flow time.",
        source="Kong et al. (arXiv 2606.22327): 1 + 2 / (1 - a) for peaks of at most a M; here a = 1/2",
        states="proved",
        family=enumerated(
            "the theory model: 3 or 4 requests at tick 0, prompts 1 or 2, outputs 1 to 3, memory from twice the "
            "largest peak",
            lambda: (
                instance
                for instance in small.plain_family((3, 4), (1, 2), (1, 2, 3))
                if 2 * max(request.peak for request in instance.requests) <= (instance.machine.memory or 0)
            ),
        ),
        predicate=within(run("memory-area"), 5, optimal(), "smallest volume first has {}, the optimum is {}"),
        note="The largest ratio in the family is far from the guarantee; started as in MC-SF.",
    ),
    "mc-sf-average": claim("hindsight:n=8,M=12", "all at tick 0", "1.005", "refuted"),
    "mc-sf-average-online": claim("hindsight:n=8,M=12,T=12", "arrivals at 0 to 12", "1.047", "proved"),
    "sorted-f": Hypothesis(
        statement="Sorted-F is within 48 times the optimal total flow time.",
        source="Wang et al. (arXiv 2508.06133): 48, with all requests there at first",
        states="proved",
        family=enumerated(
            "the theory model: 3 or 4 requests at tick 0, prompts 1 or 4, outputs 1 or 3, all memories",
            lambda: small.plain_family((3, 4), (1, 4), (1, 3)),
        ),
        predicate=within(run("sorted-f"), 48, optimal(), "sorted-f has {}, the optimum is {}: over 48 times"),
        note="The largest ratio in the family is far from the guarantee; started as in MC-SF.",
    ),
    "sorted-f-mc-sf": Hypothesis(
        statement="Sorted-F is never worse than MC-SF.",
        source="one of our own; Wang et al. show that shortest output first can be arbitrarily bad",
        states="refuted",
        family=drawn(
            "the theory model: 4 requests at tick 0, prompts and outputs up to 5, memory up to twice the largest peak",
            2000,
            lambda draw, name: small.drawn_plain(draw, 4, 5),
        ),
        predicate=within(run("sorted-f"), 1, run("mc-sf"), "sorted-f has {}, mc-sf {}"),
    ),
}  # fmt: skip
