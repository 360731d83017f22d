"""Exact start times of requests that run from start to end (`docs/start_time.md`)."""

from solvers.start_time.problem import why_not_rigid
from solvers.start_time.solve import Outcome, StartTimeSolver

__all__ = ["Outcome", "StartTimeSolver", "why_not_rigid"]
