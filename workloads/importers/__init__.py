"""Traces of real requests as instances: one file for each source; `docs/data.md` describes their formats."""

from workloads.importers.agent_traces import read_agent_traces
from workloads.importers.azure import read_azure
from workloads.importers.infercept import contended_machine, infercept_requests, infercept_slice, read_infercept
from workloads.importers.reader import Imported, read_requests, read_trace
from workloads.importers.selection import Selection, read_map

__all__ = [
    "Imported",
    "Selection",
    "contended_machine",
    "infercept_requests",
    "infercept_slice",
    "read_agent_traces",
    "read_azure",
    "read_infercept",
    "read_map",
    "read_requests",
    "read_trace",
]
