"""kvbound: how good can an LLM-serving scheduler be? Instances, schedules, the referee, and what they measure."""

from kvbound.cost import Cost, CostFunction, Features
from kvbound.errors import BadInput, MissingTool
from kvbound.instance import Call, Instance, Machine, Request, Segment, Slo
from kvbound.metrics import OBJECTIVES, handlings, measures, objective_value
from kvbound.schedule import Batch, Schedule
from kvbound.trace import Trace
from kvbound.validator import InvalidSchedule, verify_schedule

__version__ = "0.1.0"

__all__ = [
    "OBJECTIVES",
    "BadInput",
    "Batch",
    "Call",
    "Cost",
    "CostFunction",
    "Features",
    "Instance",
    "InvalidSchedule",
    "Machine",
    "MissingTool",
    "Request",
    "Schedule",
    "Segment",
    "Slo",
    "Trace",
    "handlings",
    "measures",
    "objective_value",
    "verify_schedule",
]
