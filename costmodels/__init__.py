"""How long a batch takes: named cost models, each as the exact integer coefficients of an instance."""

from costmodels.cost_model import CostModel as CostModel
from costmodels.devices import DEVICES as DEVICES
from costmodels.infercept import infercept_6b as infercept_6b
from costmodels.infercept import infercept_13b as infercept_13b
from costmodels.infermax import infermax_7b as infermax_7b
from costmodels.infermax import infermax_70b as infermax_70b
from costmodels.machines import GPT_J_6B as GPT_J_6B
from costmodels.machines import INFERMAX_7B as INFERMAX_7B
from costmodels.machines import INFERMAX_70B as INFERMAX_70B
from costmodels.machines import VICUNA_13B as VICUNA_13B
from costmodels.models import MODELS as MODELS
from costmodels.registry import COSTS as COSTS
from costmodels.registry import get_cost as get_cost
