"""How long a batch takes: named cost models, each as the exact integer coefficients that an instance holds."""

from costmodels.cost_model import CostModel
from costmodels.devices import DEVICES
from costmodels.infercept import infercept_6b, infercept_13b
from costmodels.infermax import infermax_7b, infermax_70b
from costmodels.machines import GPT_J_6B, INFERMAX_7B, INFERMAX_70B, VICUNA_13B
from costmodels.models import MODELS
from costmodels.registry import COSTS, get_cost

__all__ = [
    "COSTS",
    "DEVICES",
    "GPT_J_6B",
    "INFERMAX_7B",
    "INFERMAX_70B",
    "MODELS",
    "VICUNA_13B",
    "CostModel",
    "get_cost",
    "infercept_6b",
    "infercept_13b",
    "infermax_7b",
    "infermax_70b",
]
