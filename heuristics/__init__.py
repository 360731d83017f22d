"""Policies, a file for each paper or engine, and the one engine that runs them."""

from heuristics.engine.job import Job, NotKnown
from heuristics.engine.min_waste import with_min_waste_handlings
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.predictions import predictions
from heuristics.engine.ranked import Ranked
from heuristics.engine.run import PolicyError, Unsuited, run_policy, trace_policy
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from heuristics.registry import BY_COST, POLICIES, STARTERS, best_schedule, get_policy

__all__ = [
    "BY_COST",
    "POLICIES",
    "STARTERS",
    "Job",
    "NotKnown",
    "Plan",
    "Policy",
    "PolicyError",
    "Ranked",
    "Unified",
    "Unsuited",
    "View",
    "best_schedule",
    "get_policy",
    "predictions",
    "run_policy",
    "trace_policy",
    "with_min_waste_handlings",
]
