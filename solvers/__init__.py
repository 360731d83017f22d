"""Solvers and runners of policies: one driver, one result."""

from solvers.driver import solve
from solvers.simulate import free_calls, simulate_policy

__all__ = ["free_calls", "simulate_policy", "solve"]
