"""Large neighbourhoods: take a few requests out, put each back where it fits."""

from solvers.neighbourhoods.annealing import improve
from solvers.neighbourhoods.scope import why_not

__all__ = ["improve", "why_not"]
