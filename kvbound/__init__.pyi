# The whole public interface: what `import kvbound as kv` gives, and the module that each name comes from.

# What a schedule is about
# Policies, optima, bounds
from heuristics import POLICIES as POLICIES
from heuristics import PolicyError as PolicyError
from heuristics import Unsuited as Unsuited
from heuristics import get_policy as get_policy
from heuristics import run_policy as run_policy
from kvcore import OBJECTIVES as OBJECTIVES
from kvcore import __version__ as __version__

# What decides
from kvcore.certificates import Certificate as Certificate
from kvcore.certificates import InvalidCertificate as InvalidCertificate

# Instances, files
from kvcore.certificates import read_certificate as read_certificate
from kvcore.certificates import verify_certificate as verify_certificate
from kvcore.coarsen import coarsen as coarsen
from kvcore.coarsen import fine_bound as fine_bound
from kvcore.coarsen import lift as lift
from kvcore.cost import Cost as Cost
from kvcore.cost import CostFunction as CostFunction
from kvcore.cost import Features as Features
from kvcore.errors import BadInput as BadInput
from kvcore.errors import MissingTool as MissingTool
from kvcore.files import read_instance as read_instance
from kvcore.files import read_schedule as read_schedule
from kvcore.files import write_text as write_text
from kvcore.instance import Call as Call
from kvcore.instance import Instance as Instance
from kvcore.instance import Machine as Machine
from kvcore.instance import Request as Request
from kvcore.instance import Segment as Segment
from kvcore.instance import Slo as Slo
from kvcore.metrics import handlings as handlings
from kvcore.metrics import measures as measures
from kvcore.metrics import objective_value as objective_value
from kvcore.referee import InvalidSchedule as InvalidSchedule
from kvcore.referee import verify_schedule as verify_schedule
from kvcore.result import Horizon as Horizon
from kvcore.result import Result as Result
from kvcore.schedule import Batch as Batch
from kvcore.schedule import Schedule as Schedule
from kvcore.summary import summary as summary
from kvcore.trace import Trace as Trace
from workloads.builtin import builtin_instance as builtin_instance
from workloads.generators import generate as generate
from workloads.importers import read_agent_traces as read_agent_traces
from workloads.importers import read_azure as read_azure
from workloads.importers import read_infercept as read_infercept
