"""Lower bounds that scale: each method proposes the numbers of a proof, and `kvcore.certificates` checks them."""

from bounds.ladder import GONE, METHODS, Method, Rung, climb

__all__ = ["GONE", "METHODS", "Method", "Rung", "climb"]
