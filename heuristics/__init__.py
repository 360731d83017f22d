"""Policies, one a file, and the one engine that runs them."""

from heuristics.engine import PolicyError, Unsuited, run_policy, trace_policy
from heuristics.job import Job, NotKnown
from heuristics.min_waste import with_min_waste_handlings
from heuristics.plan import Plan
from heuristics.policy import Policy
from heuristics.ranked import Ranked
from heuristics.registry import POLICIES, STARTERS, best_schedule, better_traces, get_policy
from heuristics.unified import Unified
from heuristics.view import View

__all__ = [
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
    "better_traces",
    "get_policy",
    "run_policy",
    "trace_policy",
    "with_min_waste_handlings",
]
