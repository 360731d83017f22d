"""Traces of real requests as instances, a file for each source (`docs/data.md`)."""

from workloads.importers.agent_traces import read_agent_traces as read_agent_traces
from workloads.importers.azure import read_azure as read_azure
from workloads.importers.infercept import contended_machine as contended_machine
from workloads.importers.infercept import infercept_requests as infercept_requests
from workloads.importers.infercept import infercept_slice as infercept_slice
from workloads.importers.infercept import read_infercept as read_infercept
from workloads.importers.reader import Imported as Imported
from workloads.importers.reader import read_requests as read_requests
from workloads.importers.reader import read_trace as read_trace
from workloads.importers.selection import Selection as Selection
from workloads.importers.selection import read_map as read_map
