"""How long a batch takes: named cost models, each as the exact integer coefficients that an instance holds."""

from costmodels.infercept import infercept_6b, infercept_13b
from costmodels.infermax import infermax_7b, infermax_70b
from costmodels.machines import GPT_J_6B, INFERMAX_7B, INFERMAX_70B, VICUNA_13B
from costmodels.registry import COSTS, CostModel, get_cost

__all__ = [
    "COSTS",
    "GPT_J_6B",
    "INFERMAX_7B",
    "INFERMAX_70B",
    "VICUNA_13B",
    "CostModel",
    "get_cost",
    "infercept_6b",
    "infercept_13b",
    "infermax_7b",
    "infermax_70b",
]
