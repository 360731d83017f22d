"""Whether more memory or chunks can make a policy or an optimal controller worse, and what one token less can cost."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from operator import le

from hypotheses import Family, Hypothesis, drawn, enumerated
from hypotheses import small_instances as small
from hypotheses.predicates import compared, never_hurts, optimal, run, within
from kvcore.instance import Instance


def theory(
    words: tuple[str, str, str], counts: Sequence[int], prompts: Sequence[int], outputs: Sequence[int]
) -> Family:
    return enumerated(
        "the theory model: {} requests at tick 0, prompts {}, outputs {}, every memory that matters".format(*words),
        lambda: small.plain_family(counts, prompts, outputs),
    )


BUDGET_4 = enumerated(
    "INFERMAX's machine (budget 4): 2 or 3 requests at tick 0, prompts 1 to 3, outputs 1 to 4, every memory that "
    "matters",
    lambda: small.plain_family((2, 3), (1, 2, 3), (1, 2, 3, 4), small.INFERMAX),
)
LARGER = drawn(
    "the theory model: 5 requests at tick 0, prompts and outputs of 1 to 4, memory up to twice the largest peak",
    800,
    lambda draw, name: small.drawn_plain(draw, 5, 4),
)


def one_more(instance: Instance) -> Instance:
    """Return the instance with one token of memory more."""
    return small.with_machine(instance, memory=(instance.machine.memory or 0) + 1)


def more(whose: str, states: str, family: Family, policy: str | None) -> Hypothesis:
    return Hypothesis(
        statement=f"One token of memory more never raises the {whose}.",
        source="common sense",
        states=states,
        family=family,
        predicate=never_hurts(one_more, "one token of memory more", ("less", "more"), policy),
    )


def less(whose: str, policy: str | None, family: Family) -> Hypothesis:
    make = optimal if policy is None else partial(run, policy)
    return Hypothesis(
        statement=f"One token of memory less raises the {whose} by half at the most.",
        source="a report that 4.5 % fewer blocks gave 4.7 times the P99 TTFT: of the policy, or of the optimum too?",
        states="refuted",
        family=family,
        predicate=within(
            make("less", None, "total-ttft"), Fraction(3, 2), make("more", one_more, "total-ttft"),
            "total TTFT is {1}, and {0} with one token of memory less",
        ),
    )  # fmt: skip


MACHINE = small.THEORY.replace(batch_tokens=4, pause=True)


def chunked(instance: Instance) -> Instance:
    return small.with_machine(instance, chunked=True)


no_better = compared(optimal("whole"), le, optimal("chunked", chunked), "{} becomes {} with chunks")

HYPOTHESES = {
    **{
        f"more-memory-{policy}": more(f"total flow time of {policy}", states, family, policy)
        for policy, states, family in (
            ("fcfs", "refuted", theory(("2 to 4", "1 to 3", "1 to 4"), (2, 3, 4), (1, 2, 3), (1, 2, 3, 4))),
            ("mc-sf", "no counterexample", LARGER),
            ("sarathi", "refuted", BUDGET_4),
            ("vllm", "refuted", BUDGET_4),
        )
    },
    "more-memory-optimum": more(
        "optimal total flow time", "proved", theory(("2 or 3", "1 or 2", "1 or 3"), (2, 3), (1, 2), (1, 3)), None
    ),
    "one-token-less-optimum": less(
        "optimal total TTFT", None, theory(("2 or 3", "1 to 3", "1 to 4"), (2, 3), (1, 2, 3), (1, 2, 3, 4))
    ),
    "one-token-less-vllm": less("total TTFT of vllm", "vllm", BUDGET_4),
    "chunking-optimum": Hypothesis(
        statement="Allowing chunked prefills never raises the optimal total flow time.",
        source="what Sarathi-Serve takes for granted; every whole prefill is one chunk",
        states="proved",
        family=enumerated(
            "2 requests at tick 0, prompts 1 to 4, outputs 1 or 2, batches of 4 ticks and one per token and token of "
            "KV read",
            lambda: small.plain_family((2,), range(1, 5), (1, 2), MACHINE, small.LINEAR),
        ),
        predicate=never_hurts(chunked, "chunks", ("whole", "chunked")),
    ),
    "chunking-with-fixed-cost": Hypothesis(
        statement="Where a batch has a fixed cost too, chunked prefills do not lower the optimal total flow time "
        "either.",
        source="the same claim, where it should fail",
        states="refuted",
        family=enumerated(
            "3 or 4 requests at tick 0, prompts 2 to 4, output 1, 4 tokens a batch, 3 ticks and one a token, all "
            "memories",
            lambda: small.plain_family((3, 4), (2, 3, 4), (1,), MACHINE, small.FIXED),
        ),
        predicate=no_better,
    ),
    "chunking-without-fixed-cost": Hypothesis(
        statement="Where a batch costs one tick per token and nothing else, and pauses are allowed, chunked prefills "
        "do not lower the optimal total flow time of requests that are all there at first.",
        source="exchange of chunks, as for jobs on one machine",
        states="proved",
        family=enumerated(
            "2 requests at tick 0, prompts 1 to 4, outputs 1 or 2, 4 tokens a batch, one tick a token, all memories",
            lambda: small.plain_family((2,), range(1, 5), (1, 2), MACHINE, small.PER_TOKEN),
        ),
        predicate=no_better,
    ),
}
