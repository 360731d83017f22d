# The whole public interface: what `import kvbound as kv` gives, and the module that each name comes from.

# What a schedule is about
from kvcore import __version__ as __version__
from kvcore.cost import Cost as Cost
from kvcore.cost import CostFunction as CostFunction
from kvcore.cost import Features as Features
from kvcore.cost import OwnCost as OwnCost
from kvcore.errors import BadInput as BadInput
from kvcore.errors import MissingTool as MissingTool
from kvcore.instance import Instance as Instance
from kvcore.instance import Machine as Machine
from kvcore.instance import Request as Request
from kvcore.instance import Node as Node
from kvcore.instance import Segment as Segment
from kvcore.instance import Call as Call
from kvcore.instance import Slo as Slo
from kvcore.schedule import Batch as Batch
from kvcore.schedule import Schedule as Schedule

# What decides
from kvcore.referee import verify_schedule as verify_schedule
from kvcore.referee import InvalidSchedule as InvalidSchedule
from kvcore.trace import Trace as Trace
from kvcore.metrics import OBJECTIVES as OBJECTIVES
from kvcore.metrics import objective_value as objective_value
from kvcore.metrics import measures as measures
from kvcore.metrics import handlings as handlings
from kvcore.metrics import summary as summary
from kvcore.account import memory_waste as memory_waste
from kvbound.waste import wasted as wasted
from kvbound.machine_checked import verify_certificate as verify_certificate
from kvcore.certificates import InvalidCertificate as InvalidCertificate
from kvcore.certificates import Certificate as Certificate
from kvcore.result import Result as Result
from kvcore.result import Horizon as Horizon

# Instances and files
from kvbound.named import read as read
from kvbound.instances import load_instance as load_instance
from workloads.builtin import builtin_instance as builtin_instance
from workloads.generators import generate as generate
from costmodels import get_cost as get_cost
from heuristics import with_min_waste_handlings as with_min_waste_handlings
from heuristics.load import rate as rate
from heuristics.load import scaled as scaled
from library import Library as Library
from workloads.importers import read_agent_traces as read_agent_traces
from workloads.importers import read_azure as read_azure
from workloads.importers import read_infercept as read_infercept
from workloads.importers import read_trace as read_trace
from workloads.importers import Selection as Selection
from heuristics.as_logged import read_run as read_run
from heuristics.as_logged import LoggedRun as LoggedRun
from workloads.importers.measured import read_measured as read_measured
from workloads.importers.measured import MeasuredRun as MeasuredRun
from kvcore.files import read_instance as read_instance
from kvcore.files import read_schedule as read_schedule
from kvcore.files import write_text as write_text
from kvcore.certificates import read_certificate as read_certificate
from workloads.coarsen import coarsen as coarsen
from workloads.own import own as own
from kvbound.distortion import distortion as distortion

# Policies, optima, bounds
from heuristics import POLICIES as POLICIES
from heuristics import get_policy as get_policy
from heuristics import Policy as Policy
from heuristics import View as View
from heuristics import Plan as Plan
from heuristics import Job as Job
from heuristics import Ranked as Ranked
from heuristics import Unified as Unified
from heuristics.policies.figure_1 import Listed as Listed
from heuristics import run_policy as run_policy
from heuristics import PolicyError as PolicyError
from heuristics import Unsuited as Unsuited
from kvbound.named import simulate as simulate
from kvbound.named import solve as solve
from kvbound.named import exact as exact
from kvbound.named import improve as improve
from kvbound.named import bound as bound
from kvbound.named import compare as compare
from kvbound.comparison import Comparison as Comparison
from kvbound.explanation import explain as explain
from kvbound.explanation import Explanation as Explanation
from kvbound.option_graph import request_graph as request_graph

# The model to take elsewhere
from formulations import make as make_model
from formulations.horizon import sufficient_batches as sufficient_batches
from solvers.matrix import MatrixModel as MatrixModel

# Claims, counterexamples, sweeps
from hypotheses import Case as Case
from hypotheses import Fails as Fails
from hypotheses import Hypothesis as Hypothesis
from hypotheses import Verdict as Verdict
from hypotheses import check as check
from hypotheses import listed as listed
from hypotheses.hypothesis_files import load as load_hypothesis
from hypotheses.search import SearchSpace as SearchSpace
from hypotheses.search import search as search
from sweeps import sweep as sweep

# Pictures and reports
from kvbound.display import plot as plot
from kvbound.frames import to_dataframe as to_dataframe
from kvbound.plots import compare_schedules as compare_schedules
from kvbound.plots import gantt as gantt
from kvbound.plots import memory as memory
from kvbound.plots import ladder as ladder
from kvbound.plots import plot_record as plot_record
from kvbound.plots import save as save
from kvbound.plots import render as render
from kvbound.report import Report as Report
