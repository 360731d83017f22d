"""The ground, what must be trusted to believe a number: instances, schedules, the referee, measures, certificates."""

from kvcore.cost import Cost, CostFunction, Features
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Call, Instance, Machine, Request, Segment, Slo
from kvcore.metrics import OBJECTIVES, handlings, measures, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.schedule import Batch, Schedule
from kvcore.trace import Trace

__version__ = "0.3.0"

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
