"""Search for counterexamples: instances of a bounded family on which a policy is as far from optimal as can be."""

from hypotheses.counterexamples.family import Family
from hypotheses.counterexamples.ratio import Claim, Optima, judge
from hypotheses.counterexamples.run import Hunt, hunt
from hypotheses.counterexamples.shrinking import shrink

__all__ = ["Claim", "Family", "Hunt", "Optima", "hunt", "judge", "shrink"]
