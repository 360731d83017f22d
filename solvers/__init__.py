"""What solves the models and runs the policies: one driver, one result."""

from solvers.driver import free_calls, simulate_policy, solve

__all__ = ["free_calls", "simulate_policy", "solve"]
