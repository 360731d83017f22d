"""Search for counterexamples: instances of a bounded family on which a policy is as far from optimal as can be."""

from hypotheses.counterexamples.ratio import Claim, Optima, judge
from hypotheses.counterexamples.run import Search, search
from hypotheses.counterexamples.shrinking import shrink
from hypotheses.counterexamples.space import SearchSpace

__all__ = ["Claim", "Optima", "Search", "SearchSpace", "judge", "search", "shrink"]
