"""Whether chunked prefills can make an optimal controller worse, and whether they can make it better."""

from __future__ import annotations

from operator import le

from hypotheses import Hypothesis, enumerated
from hypotheses.instances import FIXED, LINEAR, PER_TOKEN, THEORY, plain_family, with_machine
from hypotheses.predicates import compared, never_hurts, optimal
from kvcore.instance import Instance

MACHINE = THEORY.replace(batch_tokens=4, pause=True)


def chunked(instance: Instance) -> Instance:
    return with_machine(instance, chunked=True)


no_better = compared(optimal("whole"), le, optimal("chunked", chunked), "{} becomes {} with chunks")


HYPOTHESES = {
    "chunking-optimum": Hypothesis(
        statement="Allowing chunked prefills never raises the optimal total flow time.",
        source="what Sarathi-Serve takes for granted; every whole prefill is one chunk",
        states="proved",
        family=enumerated(
            "2 requests at tick 0, prompts 1 to 4, outputs 1 or 2, batches of 4 ticks and one per token and token of "
            "KV read",
            lambda: plain_family((2,), range(1, 5), (1, 2), MACHINE, LINEAR),
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
            lambda: plain_family((3, 4), (2, 3, 4), (1,), MACHINE, FIXED),
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
            lambda: plain_family((2,), range(1, 5), (1, 2), MACHINE, PER_TOKEN),
        ),
        predicate=no_better,
    ),
}
