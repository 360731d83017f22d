"""Search for counterexamples: instances of a bounded family on which a policy is as far from optimal as can be."""

from hunting.family import Family
from hunting.ratio import Claim, Optima, judge
from hunting.run import Hunt, hunt
from hunting.shrinking import shrink

__all__ = ["Claim", "Family", "Hunt", "Optima", "hunt", "judge", "shrink"]
