"""Policies, and the engine that runs them."""

from heuristics.engine.job import Job as Job
from heuristics.engine.job import NotKnown as NotKnown
from heuristics.engine.min_waste import with_min_waste_handlings as with_min_waste_handlings
from heuristics.engine.plan import Plan as Plan
from heuristics.engine.policy import Policy as Policy
from heuristics.engine.predictions import predictions as predictions
from heuristics.engine.ranked import Ranked as Ranked
from heuristics.engine.run import PolicyError as PolicyError
from heuristics.engine.run import Unsuited as Unsuited
from heuristics.engine.run import run_policy as run_policy
from heuristics.engine.run import trace_policy as trace_policy
from heuristics.engine.unified import Unified as Unified
from heuristics.engine.view import View as View
from heuristics.registry import BY_COST as BY_COST
from heuristics.registry import POLICIES as POLICIES
from heuristics.registry import SHARING as SHARING
from heuristics.registry import STARTERS as STARTERS
from heuristics.registry import best_schedule as best_schedule
from heuristics.registry import get_policy as get_policy
