"""Search for counterexamples: instances of a bounded family on which a policy is farthest from optimal."""

from hypotheses.search.ratio import Claim, Optima, judge
from hypotheses.search.run import SearchRecord, search
from hypotheses.search.shrinking import shrink
from hypotheses.search.space import SearchSpace

__all__ = ["Claim", "Optima", "SearchRecord", "SearchSpace", "judge", "search", "shrink"]
